package script

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A type reads as it is spelled, and is spelled as it reads.
func TestReplyTypes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"int":                                    "",
		"string?":                                "",
		"[]string":                               "",
		"[]string?":                              "",
		"([]string)?":                            "",
		"(map[string]int)?":                      "",
		"map[string][]int":                       "",
		"[]([]int)?":                             "",
		"(string)":                               "string",
		"raw":                                    "",
		"[]raw":                                  "",
		"json(example.com/shop.Order)?":          "",
		"acquired bool, left duration":           "(acquired bool, left duration)",
		"acquired  bool,left duration?":          "(acquired bool, left duration?)",
		"(a int, b string)?":                     "",
		"[](member string, score float)":         "",
		"[](member string, score float)?":        "",
		"([](member string, score float))?":      "",
		"next int, jobs [](id string, at time?)": "(next int, jobs [](id string, at time?))",
		"[](id string, tags [](k string, v raw))": "",
		"map[string](a int, b int)":               "",
		"[](id string)":                           "",
	} {
		if want == "" {
			want = text
		}
		got, err := parseReply(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got.String())
		again, err := parseReply(got.String())
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
	for text, wrong := range map[string]string{
		"[]":                     `unknown type ""`,
		"()":                     `unknown type ""`,
		"([]int":                 "do not match",
		"(int)(int)":             "do not match",
		"[]int)":                 `unknown type "int)"`,
		"(string?)?":             "is optional twice",
		"raw?":                   "a raw reply may be nil",
		"(raw)?":                 "a raw reply may be nil",
		"[](a int, a int)":       "a is taken twice",
		"a (b int, c wrong)":     `a: c: unknown type "wrong"`,
		"[](a int b)":            `"a int b" is not a name and a type`,
		"enum(a|b)":              "unknown type",
		"channel":                "unknown type",
		"[](member string, 1 x)": `"1 x" is not a name and a type`,
	} {
		_, err := parseReply(text)
		require.ErrorContains(t, err, wrong, text)
	}
}

func TestArgumentTypes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"string", "duration?", "channel", "channel?", "enum(publish|spublish)",
		"enum(a)?", "json(Order)"} {
		got, err := parseArgType(text)
		require.NoError(t, err, text)
		require.Equal(t, text, got.String())
	}
	for text, wrong := range map[string]string{
		"enum":                "lists no values",
		"enum()":              `enum: "" is not a value`,
		"enum(a|)":            `enum: "" is not a value`,
		"enum(a|b":            "lists no values",
		"enum(a|A)":           `enum: "a" and "A" become the same Go name A`,
		"enum(NX|nx)":         `enum: "NX" and "nx" become the same Go name Nx`,
		"string?":             "cannot be optional",
		"raw":                 "unknown type",
		"[]string":            "unknown type",
		"enum(a b)":           `"a b" is not a value`,
		"enum(get-it|get_it)": "become the same Go name GetIt",
	} {
		_, err := parseArgType(text)
		require.ErrorContains(t, err, wrong, text)
	}
}

func TestEntries(t *testing.T) {
	t.Parallel()
	s, findings := Parse("publish.lua", []byte(`-- mode: write
-- KEYS[1] log key
-- KEYS[2] shard channel  its slot is the log's
-- ARGV[1] how enum(publish | spublish)  which of the two
-- ARGV[2] _  it was the time once
--            and is not any more
-- ARGV[3] news channel?
-- returns: int
redis.call('APPEND', KEYS[1], 'x')
return redis.call(ARGV[1], ARGV[3], 'x') + redis.call('SPUBLISH', KEYS[2], 'x')
`))
	require.Empty(t, findings)
	require.Equal(t, KeyType, s.Keys[0].Type.String())
	require.Equal(t, ChannelType, s.Keys[1].Type.String())
	require.Equal(t, []string{"publish", "spublish"}, s.Args[0].Type.Values)
	require.Equal(t, "which of the two", s.Args[0].Doc)
	require.True(t, s.Args[1].Skipped)
	require.Equal(t, "it was the time once and is not any more", s.Args[1].Doc)
	require.Equal(t, Type{Base: ChannelType, Optional: true}, s.Args[2].Type)
}

package rlock_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// A State tells people, logs and JSON all but the token, and the remaining time as it is
// when they ask.
func TestStateInWords(t *testing.T) {
	t.Parallel()
	long := "\xff" + strings.Repeat("k", 1<<16)
	inBubble(t, func(t *testing.T, client rueidis.Client, _ *redis) {
		locker := open(t, client)
		for name, test := range map[string]struct {
			key          string
			set          []string // command that takes the key; nil: it is free
			text, logged string
			json         string
		}{
			"free": {
				key: "job", text: `lock "job": free`, logged: `v.key=job v.held=false`,
				json: `{"Key":"job","Owner":"","Held":false,"Shared":false,"Cached":false,"Remaining":0}`,
			},
			"held": {
				key: "held", set: []string{"secret", "PX", "2000"},
				text: `lock "held": held, 1.5s left`, logged: `v.key=held v.held=true v.remaining=1.5s`,
				json: `{"Key":"held","Owner":"","Held":true,"Shared":false,"Cached":false,"Remaining":1500000000}`,
			},
			"over by now": {
				key: "over", set: []string{"secret", "PX", "400"},
				text: `lock "over": held, 0s left`, logged: `v.key=over v.held=true v.remaining=0s`,
				json: `{"Key":"over","Owner":"","Held":true,"Shared":false,"Cached":false,"Remaining":0}`,
			},
			"held by somebody who says so, without a lease": {
				key: "kept", set: []string{newUUID + " web-3 pid 7"},
				text:   `lock "kept": held by "web-3 pid 7", never expires`,
				logged: `v.key=kept v.held=true v.owner="web-3 pid 7" v.remaining="never expires"`,
				json: `{"Key":"kept","Owner":"web-3 pid 7","Held":true,"Shared":false,"Cached":false,` +
					`"Remaining":9223372036854775807}`,
			},
			"a long key of any bytes": {
				key: long, text: `lock "\xff` + strings.Repeat("k", 79) + `"…: free`,
				logged: `v.key="\"\\xff` + strings.Repeat("k", 79) + `\"…" v.held=false`,
			},
		} {
			if test.set != nil {
				require.NoError(t, client.Do(t.Context(),
					client.B().Arbitrary("SET", test.key).Args(test.set...).Build()).Error())
			}
			state, err := locker.Check(t.Context(), test.key)
			require.NoError(t, err)
			time.Sleep(500 * time.Millisecond)
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
				require.Equal(t, test.text, fmt.Sprintf(verb, state), name)
			}
			require.Equal(t, test.logged, logged(state), name)
			if test.json != "" {
				text, err := json.Marshal(state)
				require.NoError(t, err)
				require.Equal(t, test.json, string(text), name)
			}
		}
	})
}

const newUUID = "b1f41b3e-7a5e-4f4e-9d0e-0c6ad3f6a0b9"

// logged returns what slog makes of v, without time, level and message.
func logged(v any) string {
	var text bytes.Buffer
	slog.New(slog.NewTextHandler(&text, nil)).Info("", "v", v)
	_, line, _ := strings.Cut(text.String(), `msg="" `)
	return strings.TrimSpace(line)
}

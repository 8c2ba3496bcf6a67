package try

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// dumping reads keys with their types, values and expiries. Without keys, it reads all.
const dumping = `
local out = {}
local keys = KEYS
if #keys == 0 then keys = redis.call('KEYS', '*') end
for _, key in ipairs(keys) do
  local kind = redis.call('TYPE', key)
  if type(kind) == 'table' then kind = kind.ok end
  local values = {}
  if kind == 'string' then values = {redis.call('GET', key)}
  elseif kind == 'list' then values = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'set' then values = redis.call('SMEMBERS', key)
  elseif kind == 'hash' then values = redis.call('HGETALL', key)
  elseif kind == 'zset' then values = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'stream' then
    for _, entry in ipairs(redis.call('XRANGE', key, '-', '+')) do
      values[#values + 1] = entry[1]
      values[#values + 1] = table.concat(entry[2], ' ')
    end
  end
  local ends = redis.call(ARGV[1], key)
  if kind ~= 'none' then out[#out + 1] = {key, kind, tostring(ends), values} end
end
return out`

// data maps the name of a key to its data.
type data map[string]stored

type stored struct {
	kind   string
	values []string
	ends   string // the time of its expiry, in milliseconds
}

// never stands for a missing expiry.
const never = "-1"

// String describes the data, for a message.
func (s stored) String() string {
	switch s.kind {
	case "":
		return "nothing"
	case "string":
		return quote(s.values[0])
	}
	return fmt.Sprintf("a %s of %d", s.kind, s.size())
}

func (s stored) size() int {
	if s.kind == "hash" || s.kind == "zset" || s.kind == "stream" {
		return len(s.values) / 2
	}
	return len(s.values)
}

// dump reads the data of the keys, or of all keys. The clock of the embedded server stands still. So dump
// reads the rest of a lease there, and the time of its end elsewhere.
func (s *server) dump(ctx context.Context, keys []string) (data, error) {
	ends := "PEXPIRETIME"
	if s.local != nil {
		ends = "PTTL"
	}
	command := s.admin.B().Eval().Script(dumping).Numkeys(int64(len(keys))).Key(keys...).Arg(ends).Build()
	rows, err := s.admin.Do(ctx, command).ToArray()
	if err != nil {
		return nil, err
	}
	d := data{}
	for _, row := range rows {
		columns, err := row.ToArray()
		if err != nil {
			return nil, err
		}
		key, _ := columns[0].ToString()
		kind, _ := columns[1].ToString()
		ends, _ := columns[2].ToString()
		values, err := columns[3].AsStrSlice()
		if err != nil {
			return nil, err
		}
		if kind == "set" {
			slices.Sort(values)
		}
		if kind == "hash" {
			values = pairs(values)
		}
		d[key] = stored{kind, values, ends}
	}
	return d, nil
}

// pairs sorts the fields of a hash, because their order means nothing.
func pairs(flat []string) []string {
	var fields [][2]string
	for i := 0; i+1 < len(flat); i += 2 {
		fields = append(fields, [2]string{flat[i], flat[i+1]})
	}
	slices.SortFunc(fields, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	sorted := []string{}
	for _, f := range fields {
		sorted = append(sorted, f[0], f[1])
	}
	return sorted
}

// changed returns the first key that differs between two states of the data; "": none.
func changed(before, after data, expiries bool) string {
	first := ""
	for _, d := range []data{before, after} {
		for key := range d {
			b, a := before[key], after[key]
			differ := b.kind != a.kind || !slices.Equal(b.values, a.values) || expiries && b.ends != a.ends
			if differ && (first == "" || key < first) {
				first = key
			}
		}
	}
	return first
}

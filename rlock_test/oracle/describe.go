package oracle

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// describer is a script that runs a body. It describes the body's value as JSON, before Redis makes
// a reply of the value. Numbers are texts, because JSON has no NaN. The script also reports a table
// or a function that the body gives to a command. The server answers both with the same error as
// nil and false, and these are no holes.
const describer = `
local __read = {}
local function __note(v)
  if type(v) == 'string' then __read[v] = true end
  if type(v) ~= 'table' then return end
  for k, x in pairs(v) do
    __note(k)
    __note(x)
  end
end
local function __describe(v, depth)
  local kind = type(v)
  if kind == 'number' then return {kind = 'number', text = string.format('%%.17g', v)} end
  if kind == 'string' then return {kind = 'string', text = v, read = __read[v]} end
  if kind == 'boolean' then return {kind = 'boolean', text = tostring(v)} end
  if kind ~= 'table' or depth > 5 then return {kind = kind} end
  local described, others, length = {}, 0, 0
  for k, x in pairs(v) do
    if type(k) == 'number' and k >= 1 and k == math.floor(k) then
      length = math.max(length, k)
    else
      others = others + 1
    end
  end
  if type(rawget(v, 'err')) == 'string' then return {kind = 'error', text = tostring(rawget(v, 'err'))} end
  if type(rawget(v, 'ok')) == 'string' then return {kind = 'status', text = tostring(rawget(v, 'ok'))} end
  if type(rawget(v, 'double')) == 'number' then return {kind = 'double', text = string.format('%%.17g', rawget(v, 'double'))} end
  if type(rawget(v, 'map')) == 'table' then
    for k, x in pairs(v.map) do
      described[#described + 1] = __describe(k, depth + 1)
      described[#described + 1] = __describe(x, depth + 1)
    end
    return {kind = 'table', items = described, others = 0}
  end
  if type(rawget(v, 'set')) == 'table' then
    for k in pairs(v.set) do described[#described + 1] = __describe(k, depth + 1) end
    return {kind = 'table', items = described, others = 0}
  end
  for i = 1, math.min(length, 100) do described[i] = __describe(rawget(v, i), depth + 1) end
  return {kind = 'table', items = described, others = others}
end
local __given
local function __watch(command)
  return function(...)
    for i = 1, select('#', ...) do
      local kind = type((select(i, ...)))
      if kind == 'table' or kind == 'function' then __given = kind end
    end
    local answer = command(...)
    __note(answer)
    return answer
  end
end
local redis = setmetatable({call = __watch(redis.call), pcall = __watch(redis.pcall)}, {__index = redis})
local __ended, __value = pcall(function(...)
%s
end, ...)
if __given then return cjson.encode({kind = 'given', text = __given}) end
if not __ended then error(__value) end
return cjson.encode(__describe(__value, 0))
`

// described is a Lua value as the describer describes it.
type described struct {
	Kind   string          `json:"kind"`
	Text   string          `json:"text"`
	Items  json.RawMessage `json:"items"` // cjson writes {} for an empty list
	Others int             `json:"others"`
	Read   bool            `json:"read"` // a command has answered the same text
}

func (d described) items() ([]described, error) {
	if len(d.Items) == 0 || d.Items[0] == '{' {
		return nil, nil
	}
	var items []described
	err := json.Unmarshal(d.Items, &items)
	return items, err
}

func (d described) String() string {
	if d.Kind != "table" {
		return strings.TrimSpace(d.Kind + " " + strconv.Quote(d.Text))
	}
	items, _ := d.items()
	return fmt.Sprintf("table %v and %d other fields", items, d.Others)
}

// fits returns why the value is not of the header's type, or "". Error replies fit every type.
func (d described) fits(t replyType) string {
	absent := d.Kind == "nil" || d.Kind == "boolean" && d.Text == "false"
	switch {
	case d.Kind == "error", t.Name == "raw", t.Name == "none", absent && t.Optional:
		return ""
	case t.Optional && d.Kind == "string" && d.Text == "" && (t.Name == "duration" || t.Name == "time"):
		return "" // the script answers an absent argument
	case t.scalar():
		if !d.fitsScalar(t.Name, absent) {
			return fmt.Sprintf("%v is no %s", d, t.Name)
		}
		return ""
	case t.Name == "map":
		return d.fitsMap(t)
	case t.Name == "struct":
		return d.list(len(t.Fields), func(i int, item described) string { return item.fits(t.Fields[i]) })
	}
	if items, err := d.items(); err == nil && t.Elem.Name == "struct" && len(items) > 0 &&
		t.Elem.Fields[0].scalar() && items[0].Kind != "table" {
		if n := len(t.Elem.Fields); len(items)%n == 0 {
			return d.list(-1, func(i int, item described) string { return item.fits(t.Elem.Fields[i%n]) })
		}
	}
	return d.list(-1, func(_ int, item described) string { return item.fits(*t.Elem) })
}

func (d described) fitsMap(t replyType) string {
	items, err := d.items()
	if err == nil && len(items)%2 != 0 {
		return fmt.Sprintf("%v has an odd number of values for a map", d)
	}
	return d.list(-1, func(i int, item described) string {
		if i%2 == 0 {
			return item.fits(replyType{Name: "string"})
		}
		return item.fits(*t.Elem)
	})
}

func (d described) fitsScalar(kind string, absent bool) bool {
	number, err := strconv.ParseFloat(d.Text, 64)
	isText := d.Kind == "string" || d.Kind == "status"
	whole := err == nil && number == math.Trunc(number) && math.Abs(number) < 1<<62
	if d.Read {
		return true // stored data is trusted to be of the header's type
	}
	switch kind {
	case "int", "duration", "time":
		_, err := strconv.ParseInt(d.Text, 10, 64)
		return d.Kind == "number" && whole || isText && err == nil
	case "float":
		return (isText || d.Kind == "double") && (err == nil || d.Text == "-nan") // the value of 0 / 0
	case "string", "bytes":
		return isText
	case "bool":
		return absent || d.Kind == "number" && (number == 0 || number == 1) ||
			isText && (d.Text == "OK" || d.Text == "0" || d.Text == "1") || d.Kind == "boolean"
	case "ok":
		return isText && d.Text == "OK"
	case "json":
		return isText && json.Valid([]byte(d.Text))
	}
	return false
}

// list checks that a table is a list of n values, or of any number of values if n is -1.
func (d described) list(n int, fits func(i int, item described) string) string {
	items, err := d.items()
	if err != nil || d.Kind != "table" || d.Others > 0 {
		return fmt.Sprintf("%v is no list", d)
	}
	if n >= 0 && len(items) != n {
		return fmt.Sprintf("%v has %d values, not %d", d, len(items), n)
	}
	for i, item := range items {
		if item.Kind == "nil" && i < len(items)-1 {
			return fmt.Sprintf("%v has a nil in the middle, so that Redis drops what follows", d)
		}
		if why := fits(i, item); why != "" {
			return fmt.Sprintf("value %d: %s", i+1, why)
		}
	}
	return ""
}

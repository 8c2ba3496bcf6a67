package check

import (
	"slices"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/command"
)

// keyWords returns the words of a call that are keys by the specification. If it cannot tell the keys, it
// also returns the word that hides them.
func keyWords(spec command.Keys, words []analyze.Word) (keys []analyze.Word, unknown *analyze.Word) {
	first := spec.First
	if spec.Keyword != "" {
		first, unknown = behind(spec, words)
		if unknown != nil {
			return nil, unknown
		}
		// The servers store under the key of the last keyword.
		if repeats := !spec.NumKeys && spec.Limit <= 1 && spec.Last == 0; repeats && first > 0 {
			again := spec
			again.First = first + 1
			if more, unknown := keyWords(again, words); unknown != nil || len(more) > 0 {
				return append(more, words[min(first, len(words)-1)]), unknown
			}
		}
	}
	n := len(words)
	if first <= 0 || first >= n {
		if first > 0 && words[n-1].Open && n > 1 {
			return words[n-1:], nil // the key is among the values of unpack
		}
		return nil, nil
	}
	last := first + spec.Last
	switch {
	case spec.NumKeys:
		return countedKeys(first, words)
	case spec.Limit > 1:
		last = first + (n-first)/spec.Limit - 1
		if words[n-1].Open {
			last = n - 1
		}
	case spec.Last < 0:
		last = n + spec.Last
		if words[n-1].Open {
			last = n - 1
		}
	}
	for i := first; i <= last && i < n; i += max(spec.Step, 1) {
		keys = append(keys, words[i])
	}
	if w := words[n-1]; w.Open && w.Pairs != nil && spec.Step == 2 && last >= n-1 {
		keys = slices.DeleteFunc(keys, func(w analyze.Word) bool { return w.Open })
		w.Value = w.Pairs[(n-1-first)%2]
		return append(keys, w), nil
	}
	if words[n-1].Open && last >= n-1 &&
		!slices.ContainsFunc(keys, func(w analyze.Word) bool { return w.Open }) {
		keys = append(keys, words[n-1])
	}
	return keys, nil
}

// behind returns the position of the first key behind the keyword; 0: there is none. A word that is not a
// literal may be the keyword. The value of an option must not be the keyword, because a server looks for keys
// behind the first keyword. The value must not be a list, because the number of its words is not known.
func behind(spec command.Keys, words []analyze.Word) (at int, unknown *analyze.Word) {
	takes := map[string]int{"LIMIT": 2, "BY": 1, "GET": 1, "COUNT": 1, "BLOCK": 1, "STORE": 1, "STOREDIST": 1}
	from := max(spec.First, 1)
	if at := slices.IndexFunc(words[:min(from, len(words))], isOpen); at >= 0 {
		return 0, &words[at] // its values may reach the keyword
	}
	for i := from; i < len(words); i++ {
		s, constant := words[i].Str()
		switch {
		case !constant || words[i].Open:
			return 0, &words[i]
		case strings.EqualFold(s, spec.Keyword):
			return i + 1, nil
		}
		for range takes[strings.ToUpper(s)] {
			if i++; i < len(words) && (words[i].Open || mayBeWord(words[i], spec.Keyword)) {
				return 0, &words[i]
			}
		}
	}
	return 0, nil
}

// countedKeys returns the keys of a call that counts its keys. If the count is not known, only keys may
// follow it.
func countedKeys(at int, words []analyze.Word) (keys []analyze.Word, unknown *analyze.Word) {
	if words[at].Open { // unpack brings the number too, before the keys
		return words[at:], nil
	}
	rest := words[at+1:]
	if f, known := words[at].Num(); known {
		n := max(0, int(f))
		if n <= len(rest) && !slices.ContainsFunc(rest[:n], func(w analyze.Word) bool { return w.Open }) {
			return rest[:n], nil
		}
		return rest, nil
	}
	for i := range rest {
		if !onlyKeys(rest[i]) {
			if _, literal := rest[i].Str(); !literal {
				keys = append(keys, rest[i])
				continue
			}
			return append(keys, rest[:i]...), &words[at]
		}
	}
	return rest, nil
}

// onlyKeys reports whether a word is certainly an entry of KEYS.
func onlyKeys(w analyze.Word) bool {
	for _, k := range w.Kinds() {
		switch k.(type) {
		case analyze.Key, analyze.Nil, analyze.Absent, analyze.Missing, analyze.Bool:
		default:
			return false
		}
	}
	return len(w.Kinds()) > 0
}

// isOpen reports whether a word stands for a list of unknown length.
func isOpen(w analyze.Word) bool { return w.Open }

// mayBeWord reports whether a word may be the literal, in upper or lower case.
func mayBeWord(w analyze.Word, text string) bool {
	return w.MayBe(func(k analyze.Kind) bool {
		s, constant := k.(analyze.Str)
		return constant && strings.EqualFold(s.S, text)
	})
}

// isWord reports whether a word is the literal, in upper or lower case.
func isWord(w analyze.Word, text string) bool {
	s, constant := w.Str()
	return constant && strings.EqualFold(s, text)
}

// plain are the commands that take any number of words, and no options.
var plain = strings.Fields("del exists unlink touch mget mset msetnx hset hmset hmget hdel sadd srem " +
	"smismember sdiff sinter sunion sdiffstore sinterstore sunionstore lpush lpushx rpush rpushx pfadd " +
	"pfcount pfmerge zrem zmscore xack xdel geohash geopos ping")

// endsEarly returns a constant of the script that has a NUL where an option may stand. The servers compare
// options as C strings, which end at a NUL. So the server may take the word for another option than the
// checker does. A word from the caller is never a known option.
func endsEarly(known command.Command, words []analyze.Word) *analyze.Word {
	from := 1
	switch {
	case known.Arity > 0 || slices.Contains(plain, known.Name):
		return nil
	case known.Name == "set":
		from = 3 // options follow the value
	case known.Name == "restore":
		from = 4
	}
	for i, w := range words {
		if (i >= from || w.Open) && w.MayBe(func(k analyze.Kind) bool {
			s, constant := k.(analyze.Str)
			return constant && strings.Contains(s.S, "\x00")
		}) {
			return &words[i]
		}
	}
	return nil
}

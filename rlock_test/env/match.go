package env

import "bytes"

// Contains returns a matcher of requests that contain each of s, in any order and in any case.
func Contains(s ...string) func(request []byte) bool {
	wanted := make([][]byte, 0, len(s))
	for _, part := range s {
		wanted = append(wanted, bytes.ToLower([]byte(part)))
	}
	return func(request []byte) bool {
		request = bytes.ToLower(request)
		for _, part := range wanted {
			if !bytes.Contains(request, part) {
				return false
			}
		}
		return true
	}
}

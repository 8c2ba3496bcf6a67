package redislua

import "strings"

// Slot returns the hash slot of a key in a Redis Cluster, from 0 to 16383. The slot is the CRC16 (XMODEM) of
// the hash tag, which is the text between the first { and the next }. Without a hash tag, or with an empty
// one, the slot is the CRC16 of the whole key.
// Source: Redis cluster specification, "Keys hash tags".
func Slot(key string) uint16 {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crc16[byte(crc>>8)^key[i]]
	}
	return crc & 16383
}

// crc16 is the table of the polynomial x^16 + x^12 + x^5 + 1.
var crc16 = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
		table[i] = crc
	}
	return table
}()

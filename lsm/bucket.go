package lsm

import (
	"encoding/binary"
	"math/bits"
)

// The bucket transform's hash: Murmur3, 32 bits, seed 0, except that each byte after the last full word is mixed
// as a word of its own, sign-extended. Spec: MemWAL, "Sharding"; memwal.md §6 has the vectors.

func mixWord(h, k uint32) uint32 {
	k = bits.RotateLeft32(k*0xcc9e2d51, 15) * 0x1b873593
	return bits.RotateLeft32(h^k, 13)*5 + 0xe6546b64
}

func finish(h, length uint32) uint32 {
	h ^= length
	h ^= h >> 16
	h *= 0x85ebca6b
	h ^= h >> 13
	h *= 0xc2b2ae35
	return h ^ h>>16
}

func hash32(v int32) uint32 { return finish(mixWord(0, uint32(v)), 4) }

func hash64(v int64) uint32 {
	return finish(mixWord(mixWord(0, uint32(v)), uint32(uint64(v)>>32)), 8)
}

func hashBytes(b []byte) uint32 {
	h, rest := uint32(0), b
	for ; len(rest) >= 4; rest = rest[4:] {
		h = mixWord(h, binary.LittleEndian.Uint32(rest))
	}
	for _, c := range rest {
		h = mixWord(h, uint32(int32(int8(c))))
	}
	return finish(h, uint32(len(b)))
}

// bucketOf maps a hash to a bucket of n.
func bucketOf(hash uint32, n int) int { return int(hash&0x7fffffff) % n }

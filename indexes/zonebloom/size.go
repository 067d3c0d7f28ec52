package zonebloom

import "math"

const (
	// ItemsDefault and ProbabilityDefault are the reference's defaults: rows per zone, and how often a filter may say yes
	// to a value that is not there.
	ItemsDefault       = 8192
	ProbabilityDefault = 0.00057

	blockBytes     = 32
	filterBytesMax = 1 << 27
	blockWords     = 8
	wordBits       = 32
	// loadMax is the load at which every bit of a block is set, as good as certainly.
	loadMax = 1000
)

// filterBytes is the size of the filters of a segment: the least power of two from 32 bytes to 128 MiB whose rate of
// false answers, with items values, is at most probability.
// Spec: indexes, "BLOOMFILTER".
func filterBytes(items uint64, probability float64) int {
	for size := blockBytes; size < filterBytesMax; size *= 2 {
		if falseRate(float64(items)/float64(size/blockBytes)) <= probability {
			return size
		}
	}
	return filterBytesMax
}

// falseRate is the rate of false answers of a split-block filter with load values per block on average: blocks fill up
// unevenly, by a Poisson distribution, and a value sets one bit in each of the eight words of its block.
// Spec: Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", section 3.
func falseRate(load float64) float64 {
	if load > loadMax {
		return 1
	}
	rate := 0.0
	for n := 0; n < 2*loadMax; n++ {
		lg, _ := math.Lgamma(float64(n) + 1)
		weight := math.Exp(float64(n)*math.Log(load) - load - lg)
		rate += weight * math.Pow(1-math.Pow(1-1.0/wordBits, float64(n)), blockWords)
		if float64(n) > load && weight < 1e-18 {
			break
		}
	}
	return rate
}

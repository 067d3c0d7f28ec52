package file

import (
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// parallelCells is the number of cells from which the columns of a batch are decoded on several processors: about
	// the work that is worth starting a goroutine.
	parallelCells = 16 << 10
	// takenCell is what a cell costs that is read singly, counted in cells of a scan.
	takenCell = 64
)

// forEach calls work for each of 0..n-1, on up to GOMAXPROCS goroutines of which the caller is one. It returns when all
// calls have, so nothing outlives it.
func forEach(n int, work func(i int)) {
	var next atomic.Int64
	run := func() {
		for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
			work(i)
		}
	}
	var helpers sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) - 1 {
		helpers.Add(1)
		go func() {
			defer helpers.Done()
			run()
		}()
	}
	run()
	helpers.Wait()
}

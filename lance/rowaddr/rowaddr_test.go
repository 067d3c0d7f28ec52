package rowaddr_test

import (
	"fmt"
	"math"
	"testing"

	"lancesql/lance/rowaddr"
)

func ExampleNew() {
	a := rowaddr.New(3, 41)
	fmt.Println(a, uint64(a), a.Fragment(), a.Offset())
	// Output: 3:41 12884901929 3 41
}

func TestAddrExtremes(t *testing.T) {
	a := rowaddr.New(math.MaxUint32, math.MaxUint32)
	if a.Fragment() != math.MaxUint32 || a.Offset() != math.MaxUint32 || uint64(a) != math.MaxUint64 {
		t.Fatalf("got %v", a)
	}
	if rowaddr.New(1, 0) <= rowaddr.New(0, math.MaxUint32) {
		t.Fatal("order of addresses is not the order of (fragment, offset)")
	}
}

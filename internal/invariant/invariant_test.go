package invariant_test

import (
	"errors"
	"fmt"
	"testing"

	"lancesql/internal/invariant"
)

func TestCheck(t *testing.T) {
	if err := invariant.Check(true, "never seen"); err != nil {
		t.Fatalf("true condition: %v", err)
	}
	err := failing()
	if !errors.Is(err, invariant.ErrBroken) {
		t.Fatalf("got %v, want a match of ErrBroken", err)
	}
	if want := "broken invariant: row 7 died twice"; err.Error() != want {
		t.Fatalf("got %q, want %q", err, want)
	}
}

// failing breaks an invariant and returns the error of either build.
func failing() (err error) {
	defer func() {
		if v := recover(); v != nil {
			if !invariant.Enabled {
				err = fmt.Errorf("panic although checks are off: %v", v)
				return
			}
			err, _ = v.(error)
		}
	}()
	err = invariant.Check(false, "row %d died twice", 7)
	if invariant.Enabled {
		return errors.New("no panic although checks are on")
	}
	return err
}

func ExampleCheck() {
	fmt.Println(invariant.Check(1+1 == 2, "arithmetic"))
	// Output: <nil>
}

// Package rows makes random rows of every Arrow type that has a Go form.
//
// Purpose: property tests of several packages need the same columns, NULLs and awkward values (NaN, -0, empty
// strings, zero bytes, extremes).
//
// Place in the dataflow: tests only; builds arrowx.Row values from a seeded generator.
//
// Invariants:
//
//	I1: the same generator state gives the same rows.
//	I2: values of a column collide often, so that comparisons and keys meet equal cells.
//
// Does not know: what the rows are for.
package rows

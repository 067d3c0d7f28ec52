// Package fulltext says which texts a full-text search finds, and how relevant each is, as InnoDB does.
//
// Purpose: MATCH … AGAINST without an inverted index. A text is split into words, the search string into a Query, and the query
// is asked about one text after the other; how rare a word is among all texts comes from Counts.
//
// Place in the dataflow: above nothing but the standard library. sqlbackend gives it the texts of rows, the search string and the
// order in which a collation knows words as equal.
//
// Invariants:
//
//	I1: equal keys (Fold) are equal words; nothing else about a word counts.
//	I2: every search string is a query: what is no operator where it stands separates words.
//	I3: a Query is immutable; nesting is bounded.
//
// Does not know: SQL, tables, collations.
package fulltext

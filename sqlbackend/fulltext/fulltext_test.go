package fulltext_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lancesql/sqlbackend/fulltext"
)

func lower(word string) (string, error) { return strings.ToLower(word), nil }

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		"The quick-brown fox_2 (a)!":     "the! quick brown fox_2 a!",
		"aaa'bbb aaa''bbb 'ccc' it's 'x": "aaa'bbb aaa bbb ccc it's x!",
		"Größe, naïve 42":                "größe naïve 42!",
	} {
		words, err := fulltext.Words(text, lower)
		require.NoError(t, err)
		var got []string
		for _, w := range words {
			if !w.Indexed {
				w.Key += "!"
			}
			got = append(got, w.Key)
		}
		require.Equal(t, want, strings.Join(got, " "), text)
	}
}

// The operators as the manual's section on boolean searches explains them.
func TestBoolean(t *testing.T) {
	documents := map[string]string{
		"a": "apple banana", "b": "apple juice", "c": "apple macintosh", "d": "apple turnover", "e": "apple strudel", "f": "banana",
		"g": "applesauce and pie", "h": "some words that follow; some more words", "i": "words of some kind", "j": "It's the end",
	}
	for search, want := range map[string]string{
		"apple banana":                    "abcdef",
		"+apple +juice":                   "b",
		"+apple macintosh":                "abcde",
		"+apple -macintosh":               "abde",
		"+apple ~macintosh":               "abcde",
		"+apple +(>turnover <strudel)":    "de",
		"apple*":                          "abcdeg",
		`"some words"`:                    "h",
		`"words some"@3`:                  "hi",
		`"words kind"@2`:                  "",
		"-apple":                          "",
		"+the +apple":                     "abcde",
		"":                                "",
		"+ apple":                         "abcde",
		"((((apple))))":                   "abcde",
		"apple)) (banana":                 "abcdef",
		`"apple`:                          "abcde",
		"end":                             "j",
		"it's":                            "j",
		"+(apple banana) -(juice pie)":    "acdef",
		strings.Repeat("(", 1000) + "fox": "",
	} {
		q, err := fulltext.Boolean(search, lower)
		require.NoError(t, err)
		got := ""
		for _, name := range strings.Split("a b c d e f g h i j", " ") {
			d, err := fulltext.NewDocument([]string{documents[name]}, lower)
			require.NoError(t, err)
			if q.Finds(d) {
				got += name
			}
		}
		require.Equal(t, want, got, search)
	}
}

// Ranks are those of the manual's example: "InnoDB Full-Text Relevancy Ranking", 8 articles, of which three have the word database.
func TestRank(t *testing.T) {
	articles := [][]string{
		{"MySQL Tutorial", "This database tutorial ..."}, {"How To Use MySQL", "After you went through a ..."},
		{"Optimizing Your Database", "In this database tutorial ..."}, {"MySQL vs. YourSQL", "When comparing databases ..."},
		{"MySQL Security", "When configured properly, MySQL ..."}, {"Database, Database, Database", "database database database"},
		{"1001 MySQL Tricks", "1. Never run mysqld as root. 2. ..."}, {"MySQL Full-Text Indexes", "MySQL fulltext indexes use a ..."},
	}
	ranks := func(q *fulltext.Query) []float64 {
		counts := fulltext.NewCounts(q)
		var list []*fulltext.Document
		for _, a := range articles {
			d, err := fulltext.NewDocument(a, lower)
			require.NoError(t, err)
			counts.Add(d)
			list = append(list, d)
		}
		var out []float64
		for _, d := range list {
			out = append(out, math.Round(q.Rank(d, counts)*1e6)/1e6)
		}
		return out
	}
	q, err := fulltext.Boolean("database", lower)
	require.NoError(t, err)
	require.Equal(t, []float64{0.181449, 0, 0.362899, 0, 0, 1.088696, 0, 0}, ranks(q))
	q, err = fulltext.Natural("MySQL tutorial", lower)
	require.NoError(t, err)
	require.Equal(t, []float64{0.740562, 0.01561, 0.362476, 0.01561, 0.031219, 0, 0.01561, 0.031219}, ranks(q))
}

func FuzzBoolean(f *testing.F) {
	for _, s := range []string{`+a -"b c"@3 ~(>d <e*) '`, "\xff(", `"`, "@9"} {
		f.Add(s, "some text of words")
	}
	f.Fuzz(func(t *testing.T, search, text string) {
		q, err := fulltext.Boolean(search, lower)
		if err != nil {
			t.Fatal(err)
		}
		d, err := fulltext.NewDocument([]string{text}, lower)
		if err != nil {
			t.Fatal(err)
		}
		counts := fulltext.NewCounts(q)
		counts.Add(d)
		if rank := q.Rank(d, counts); math.IsNaN(rank) || rank != 0 && !q.Finds(d) {
			t.Fatal(rank)
		}
	})
}

package fulltext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Lengths in characters that words of an index have, as innodb_ft_min_token_size and innodb_ft_max_token_size say by default.
const (
	wordMin = 3
	wordMax = 84
)

// Fold returns the key of a word: words with equal keys are equal.
type Fold func(word string) (key string, err error)

// Word is a word of a text.
type Word struct {
	Key     string
	Indexed bool // long enough and no stop word; others count in phrases only
}

// stopWords are InnoDB's. MySQL manual: "Full-Text Stopwords".
func isStopWord(word string) bool {
	switch strings.ToLower(word) {
	case "a", "about", "an", "are", "as", "at", "be", "by", "com", "de", "en", "for", "from", "how", "i", "in", "is", "it", "la", "of", "on",
		"or", "that", "the", "this", "to", "was", "what", "when", "where", "who", "will", "with", "und", "www":
		return true
	}
	return false
}

// Words splits a text: a word is letters, digits, underscores, and single apostrophes inside. MySQL manual: "Full-Text Search
// Functions".
func Words(text string, fold Fold) ([]Word, error) {
	var out []Word
	for {
		word, rest := nextWord(text)
		if word == "" {
			return out, nil
		}
		w, err := newWord(word, fold)
		if err != nil {
			return nil, err
		}
		out, text = append(out, w), rest
	}
}

func newWord(word string, fold Fold) (Word, error) {
	key, err := fold(word)
	n := utf8.RuneCountInString(word)
	return Word{Key: key, Indexed: n >= wordMin && n <= wordMax && !isStopWord(word)}, err
}

func isWordRune(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// nextWord returns the first word of a text, "" if there is none, and what follows it.
func nextWord(text string) (word, rest string) {
	start := strings.IndexFunc(text, isWordRune)
	if start < 0 {
		return "", ""
	}
	end := wordEnd(text[start:])
	return text[start : start+end], text[start+end:]
}

// wordEnd is the length of the word that a text begins with.
func wordEnd(text string) int {
	end := 0
	for end < len(text) {
		r, n := utf8.DecodeRuneInString(text[end:])
		if isWordRune(r) {
			end += n
			continue
		}
		if r != '\'' || end == 0 {
			break
		}
		next, _ := utf8.DecodeRuneInString(text[end+1:])
		if end+1 == len(text) || !isWordRune(next) {
			break
		}
		end++
	}
	return end
}

// Document is one row's texts, split into words.
type Document struct {
	texts [][]Word
	times map[string]int // of indexed words
}

// NewDocument splits the texts of a row's columns.
func NewDocument(texts []string, fold Fold) (*Document, error) {
	d := &Document{times: make(map[string]int)}
	for _, text := range texts {
		words, err := Words(text, fold)
		if err != nil {
			return nil, err
		}
		d.texts = append(d.texts, words)
		for _, w := range words {
			if w.Indexed {
				d.times[w.Key]++
			}
		}
	}
	return d, nil
}

// occurs is how often a word, or with prefix words that begin so, is in the document.
func (d *Document) occurs(key string, prefix bool) int {
	if !prefix {
		return d.times[key]
	}
	n := 0
	for k, times := range d.times {
		if strings.HasPrefix(k, key) {
			n += times
		}
	}
	return n
}

// phrase is how often words follow each other in one of the texts.
func (d *Document) phrase(keys []string) int {
	n := 0
	for _, words := range d.texts {
		for i := 0; i+len(keys) <= len(words); i++ {
			same := true
			for k := 0; same && k < len(keys); k++ {
				same = words[i+k].Key == keys[k]
			}
			if same {
				n++
			}
		}
	}
	return n
}

// near reports whether all words lie within so many words of one text, from the first to the last of them.
func (d *Document) near(keys []string, distance int) bool {
	wanted := make(map[string]bool, len(keys))
	for _, k := range keys {
		wanted[k] = true
	}
	for _, words := range d.texts {
		inside := make(map[string]int, len(wanted)) // how often each is among the last words, as many as the distance
		for i, w := range words {
			if wanted[w.Key] {
				inside[w.Key]++
			}
			if i >= distance {
				if first := words[i-distance].Key; inside[first] > 1 {
					inside[first]--
				} else {
					delete(inside, first)
				}
			}
			if len(inside) == len(wanted) {
				return true
			}
		}
	}
	return false
}

package code

import (
	"strings"
	"time"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
)

// Bounds of a file that package chroma colours. It knows 250 languages, but takes 50 times as long
// as scan, and some texts take it far longer.
const (
	maxChroma      = 48 << 10
	maxChromaLines = 1000
	chromaTime     = 150 * time.Millisecond
)

// tokenise finds the parts of a file with the lexer for its name. It reports false if there is none,
// or it took too long.
func tokenise(name, content string) (parts []part, ok bool) {
	defer func() {
		if recover() != nil { // a fault of a lexer
			parts, ok = nil, false
		}
	}()
	lexer := lexers.Match(name)
	if lexer == nil || lexer.Config().Name == "plaintext" {
		return nil, false
	}
	until := time.Now().Add(chromaTime)
	next, err := lexer.Tokenise(&chroma.TokeniseOptions{State: "root"}, content)
	if err != nil {
		return nil, false
	}
	at := 0
	for token := next(); token != chroma.EOF; token = next() {
		if time.Now().After(until) {
			return nil, false
		}
		if at += len(token.Value); at > len(content) { // a lexer may add a line break
			at = len(content)
		}
		c := classOf(token.Type)
		if n := len(parts); n > 0 && parts[n-1].class == c {
			parts[n-1].end = at
		} else {
			parts = append(parts, part{at, c})
		}
	}
	return parts, at == len(content)
}

// classOf returns the class of a token.
func classOf(t chroma.TokenType) class {
	switch {
	case t == chroma.CommentPreproc, t == chroma.CommentPreprocFile, t == chroma.NameDecorator, t == chroma.NameAttribute, t == chroma.NameProperty:
		return classPrep
	case t.InCategory(chroma.Comment):
		return classComment
	case t.InCategory(chroma.Keyword), t == chroma.NameTag, t == chroma.OperatorWord:
		return classKeyword
	case t.InSubCategory(chroma.String):
		return classString
	case t.InSubCategory(chroma.Number):
		return classNumber
	case t == chroma.NameFunction, t == chroma.NameClass, t == chroma.NameBuiltin:
		return className
	}
	return classText
}

// fitsChroma reports whether a file is small enough for tokenise.
func fitsChroma(content []byte, lines int) bool {
	return len(content) <= maxChroma && lines <= maxChromaLines && !hasLongLine(string(content))
}

// lexerName returns the name of the language of a file, "" if it is not known.
func lexerName(l *language, name string) string {
	if known := l.nameOf(name); known != "" {
		return known
	}
	if lexer := lexers.Match(name); lexer != nil && lexer.Config().Name != "plaintext" {
		return strings.TrimSpace(lexer.Config().Name)
	}
	return ""
}

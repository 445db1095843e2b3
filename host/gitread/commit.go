package gitread

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"talon/host/gitrepo"
)

// Signature is a name, an address and a time, as a commit or a tag states them.
type Signature struct {
	Name  string
	Email string
	When  int64 // unix seconds
	Zone  string
}

// Commit is what a commit says. It does not change.
type Commit struct {
	ID        string
	Tree      string
	Parents   []string
	Author    Signature
	Committer Signature
	Signed    string // "PGP", "SSH" or "X.509"; "" if it has no signature
	Encoding  string // of the message; "" for UTF-8
	Message   string
}

// Subject returns the first line of the message.
func (c *Commit) Subject() string { subject, _ := splitMessage(c.Message); return subject }

// Body returns the message without its first line.
func (c *Commit) Body() string { _, body := splitMessage(c.Message); return body }

// splitMessage takes apart a message as git does: the subject is the first paragraph.
func splitMessage(message string) (subject, body string) {
	message = strings.TrimLeft(message, "\n")
	head, body, _ := strings.Cut(message, "\n\n")
	return strings.Join(strings.Fields(head), " "), strings.Trim(body, "\n")
}

// Commit returns a commit. One that the operator has taken down has a text about that instead of its
// own. REQUIRES: the refs of the repository reach it.
func (r *Repository) Commit(id string) (*Commit, error) {
	c, err := r.commit(id)
	if err != nil {
		return nil, err
	}
	return r.shown(c), nil
}

// commit returns a commit as it is.
func (r *Repository) commit(id string) (*Commit, error) {
	return r.reader.commits.get(id, func() (*Commit, int, error) {
		content, err := r.object("commit", id, maxCommitBytes)
		if err != nil {
			return nil, 0, err
		}
		return parseCommit(id, content), len(content), nil
	})
}

// Holds reports whether the objects of the repository have a commit, whether its refs reach it or not.
func (r *Repository) Holds(commit string) (bool, error) {
	if err := r.openObjects(); err != nil {
		return false, err
	}
	kind, _, err := r.objects.Info(commit)
	if errors.Is(err, gitrepo.ErrNoObject) {
		return false, nil
	}
	return kind == "commit", err
}

// parseCommit reads a commit as far as it is well formed: pages show damaged ones too.
func parseCommit(id string, content []byte) *Commit {
	c := &Commit{ID: id}
	head, message, _ := bytes.Cut(content, []byte("\n\n"))
	eachHeader(head, func(key, value string) {
		switch key {
		case "tree":
			c.Tree = value
		case "parent":
			c.Parents = append(c.Parents, value)
		case "author":
			c.Author = parseSignature(value)
		case "committer":
			c.Committer = parseSignature(value)
		case "gpgsig", "gpgsig-sha256":
			c.Signed = kindOfSignature(value)
		case "encoding":
			c.Encoding = value
		}
	})
	c.Message = decode(message, c.Encoding)
	return c
}

// eachHeader calls yield with each header and the first line of its value.
func eachHeader(head []byte, yield func(key, value string)) {
	for line := range bytes.SplitSeq(head, []byte{'\n'}) {
		if key, value, ok := bytes.Cut(line, []byte{' '}); ok && len(key) > 0 {
			yield(string(key), string(value))
		}
	}
}

// kindOfSignature returns the kind of a signature that begins with a line.
func kindOfSignature(first string) string {
	switch {
	case strings.Contains(first, "BEGIN PGP"):
		return "PGP"
	case strings.Contains(first, "BEGIN SSH"):
		return "SSH"
	}
	return "X.509"
}

// parseSignature parses "Name <email> seconds zone".
func parseSignature(s string) (g Signature) {
	open, end := strings.IndexByte(s, '<'), strings.LastIndexByte(s, '>')
	if open < 0 || end < open {
		return Signature{Name: strings.TrimSpace(s)}
	}
	g.Name, g.Email = strings.TrimSpace(s[:open]), s[open+1:end]
	when := strings.Fields(s[end+1:])
	if len(when) > 0 {
		g.When, _ = strconv.ParseInt(when[0], 10, 64)
	}
	if len(when) > 1 {
		g.Zone = when[1]
	}
	return g
}

// decode returns a text in UTF-8. Of other encodings it knows Latin-1.
func decode(text []byte, encoding string) string {
	switch strings.ToLower(encoding) {
	case "iso-8859-1", "iso8859-1", "latin1", "latin-1":
		runes := make([]rune, len(text))
		for i, c := range text {
			runes[i] = rune(c)
		}
		return string(runes)
	}
	return strings.ToValidUTF8(string(text), "\ufffd")
}

// Tag is what an annotated tag says. It does not change.
type Tag struct {
	Object  string
	Kind    string
	Name    string
	Tagger  Signature
	Signed  string
	Message string
}

// Tag returns an annotated tag. One that the operator has taken down has a text about that instead of
// its own. REQUIRES: a ref of the repository names it.
func (r *Repository) Tag(id string) (*Tag, error) {
	t, err := r.tag(id)
	if text, ok := r.barred[id]; ok && err == nil {
		return &Tag{Object: t.Object, Kind: t.Kind, Name: t.Name, Message: "(" + text + ")"}, nil
	}
	return t, err
}

// tag returns an annotated tag as it is.
func (r *Repository) tag(id string) (*Tag, error) {
	return r.reader.tags.get(id, func() (*Tag, int, error) {
		content, err := r.object("tag", id, maxCommitBytes)
		if err != nil {
			return nil, 0, err
		}
		return parseTag(content), len(content), nil
	})
}

// parseTag reads a tag as far as it is well formed.
func parseTag(content []byte) *Tag {
	t := &Tag{}
	head, message, _ := bytes.Cut(content, []byte("\n\n"))
	eachHeader(head, func(key, value string) {
		switch key {
		case "object":
			t.Object = value
		case "type":
			t.Kind = value
		case "tag":
			t.Name = value
		case "tagger":
			t.Tagger = parseSignature(value)
		}
	})
	// The signature is a part of the message.
	for _, begin := range [...]string{"-----BEGIN PGP SIGNATURE-----", "-----BEGIN SSH SIGNATURE-----", "-----BEGIN SIGNED MESSAGE-----"} {
		if i := bytes.Index(message, []byte(begin)); i >= 0 {
			t.Signed, message = kindOfSignature(begin), message[:i]
			break
		}
	}
	t.Message = decode(message, "")
	return t
}

// RootTree returns the tree of a target. It fails with a *TakenDown.
func (r *Repository) RootTree(t Target) (string, error) {
	if err := r.check(t.Commit); err != nil {
		return "", err
	}
	c, err := r.commit(t.Commit)
	if err != nil {
		return "", err
	}
	if c.Tree == "" {
		return "", fmt.Errorf("%w: the commit %s has no tree", ErrNotFound, t.Commit)
	}
	return c.Tree, nil
}

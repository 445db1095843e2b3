package semantics

import (
	"cmp"
	"slices"

	"talon/host"
)

// UsageChanges are what a transaction changes of the usage of authors, repositories and kinds. The
// engine writes them in the same transaction.
type UsageChanges map[host.UsageKey]host.Usage

// Add counts an event that is stored. It returns the bytes of its keys.
func (c UsageChanges) Add(e *host.Event) (keys int) {
	return c.count(e, host.Usage{Events: 1, Bytes: int64(len(e.JSON))})
}

// Remove counts an event that is removed.
func (c UsageChanges) Remove(e *host.Event) {
	c.count(e, host.Usage{Events: -1, Bytes: -int64(len(e.JSON))})
}

// AddRow counts an event whose text cannot be read. Nobody knows its repository.
func (c UsageChanges) AddRow(author host.PubKey, kind host.Kind, size int64) {
	c.change(host.UsageOfAuthor(author), host.Usage{Events: 1, Bytes: size})
	c.change(host.UsageOfKind(kind), host.Usage{Events: 1, Bytes: size})
}

// RemoveRow is the reverse of AddRow.
func (c UsageChanges) RemoveRow(author host.PubKey, kind host.Kind, size int64) {
	c.change(host.UsageOfAuthor(author), host.Usage{Events: -1, Bytes: -size})
	c.change(host.UsageOfKind(kind), host.Usage{Events: -1, Bytes: -size})
}

func (c UsageChanges) count(e *host.Event, u host.Usage) (keys int) {
	author, kind := host.UsageOfAuthor(e.PubKey), host.UsageOfKind(e.Kind)
	c.change(author, u)
	c.change(kind, u)
	keys = len(author.Key) + len(kind.Key)
	if key, ok := host.UsageOfEvent(e); ok {
		c.change(key, u)
		keys += len(key.Key)
	}
	return keys
}

// Merge adds other changes.
func (c UsageChanges) Merge(others UsageChanges) {
	for key, u := range others {
		c.change(key, u)
	}
}

func (c UsageChanges) change(key host.UsageKey, u host.Usage) {
	have := c[key]
	have.Add(u)
	c[key] = have
}

// Rows returns the changes in the order of their keys, so that writers lock rows in one order. It
// leaves out changes that cancel each other.
func (c UsageChanges) Rows() []host.UsageRow {
	list := make([]host.UsageRow, 0, len(c))
	for key, u := range c {
		if u != (host.Usage{}) {
			list = append(list, host.UsageRow{UsageKey: key, Usage: u})
		}
	}
	slices.SortFunc(list, compareUsage)
	return list
}

func compareUsage(a, b host.UsageRow) int {
	return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Key, b.Key))
}

// UsageCheck compares the usage that is noted with that of the events.
type UsageCheck struct {
	Counted UsageChanges // the events
	Problem func(format string, args ...any)

	// Git data by owner: the sum of the repositories, and the note of the author.
	owners, authors map[string]int64
}

// Row compares a noted row, of which each key has one.
func (c *UsageCheck) Row(r host.UsageRow) {
	want := c.Counted[r.UsageKey]
	delete(c.Counted, r.UsageKey)
	if r.Events != want.Events || r.Bytes != want.Bytes {
		c.Problem("usage of %s: %d events of %d bytes noted, %d of %d stored", r.UsageKey, r.Events, r.Bytes, want.Events, want.Bytes)
	}
	if r.Git == 0 {
		return
	}
	if c.owners == nil {
		c.owners, c.authors = make(map[string]int64), make(map[string]int64)
	}
	owner := r.PubKey()
	switch r.Class {
	case host.UsageByRepository:
		c.owners[string(owner[:])] += r.Git
	case host.UsageByAuthor:
		c.authors[string(owner[:])] = r.Git
	}
}

// End reports what the rows lack, after the last one.
func (c *UsageCheck) End() {
	for _, r := range c.Counted.Rows() {
		c.Problem("usage of %s: none noted, %d events of %d bytes stored", r.UsageKey, r.Events, r.Bytes)
	}
	for owner, git := range c.owners {
		if c.authors[owner] != git {
			c.Problem("usage of %s: %d bytes of git data noted, %d of the repositories", host.UsageKey{Class: host.UsageByAuthor, Key: owner}, c.authors[owner], git)
		}
		delete(c.authors, owner)
	}
	for author, git := range c.authors {
		c.Problem("usage of %s: %d bytes of git data noted, none of repositories", host.UsageKey{Class: host.UsageByAuthor, Key: author}, git)
	}
}

// ChangeGitUsage returns the changes that give a repository, and with it its owner, a number of
// bytes of git data. It returns [host.ErrQuota] if that is more than before, and more than a limit.
func ChangeGitUsage(
	repository host.UsageKey, bytes int64, limits host.UsageLimits, usage func(host.UsageKey) (host.Usage, error),
) ([]host.UsageRow, error) {
	have, err := usage(repository)
	if err != nil {
		return nil, err
	}
	more := bytes - have.Git
	if more > 0 && limits.Repository > 0 && bytes > limits.Repository {
		return nil, host.ErrQuota
	}
	author := host.UsageOfAuthor(repository.PubKey())
	if more > 0 && limits.Author > 0 {
		u, err := usage(author)
		if err != nil {
			return nil, err
		}
		if u.Total()+more > limits.Author {
			return nil, host.ErrQuota
		}
	}
	changes := UsageChanges{}
	changes.change(repository, host.Usage{Git: more})
	changes.change(author, host.Usage{Git: more})
	return changes.Rows(), nil
}

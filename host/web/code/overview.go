package code

import (
	"cmp"
	"context"
	"errors"
	"html/template"
	"net/url"
	"path"
	"slices"
	"strings"

	"talon/host/gitread"
	"talon/host/web/markdown"
)

const (
	// maxOverviewEntries bounds the rows of the folder on the first page of a repository.
	maxOverviewEntries = 200

	// maxReadme bounds a README, maxLicence the part of a licence that is looked at.
	maxReadme  = 256 << 10
	maxLicence = 64 << 10
)

// Overview is what the first page of a repository shows of its default branch.
type Overview struct {
	Ref     string       // the name of the branch, for the eye
	Tree    template.URL // the page of its root
	Rows    template.HTML
	Hidden  int // entries that are not shown
	Last    *change
	Licence string       // "" if no file says one
	File    template.URL // that says it

	Languages []Share // that most of the code is in; none if that is not known yet

	ReadmeName string // "" if there is none
	ReadmeURL  template.URL
	Readme     template.HTML
}

// Share is a language and its part of the code.
type Share struct {
	Name    string
	Percent int
}

// maxShares bounds the languages on the page of a repository.
const maxShares = 6

// sharesOf returns the languages with most bytes, without those below one percent.
func sharesOf(sizes map[string]int64) (list []Share) {
	sum := int64(0)
	for _, size := range sizes {
		sum += size
	}
	for name, size := range sizes {
		if percent := int(float64(size)*100/float64(max(sum, 1)) + 0.5); percent > 0 {
			list = append(list, Share{name, percent})
		}
	}
	slices.SortFunc(list, func(a, b Share) int { return cmp.Or(b.Percent-a.Percent, strings.Compare(a.Name, b.Name)) })
	return list[:min(len(list), maxShares)]
}

// Fill prepares the pages of a repository after a push, in the background. Name names the repository.
func (p *Pages) Fill(name string, find gitread.Finder) { p.reader.Fill(name, find, languageAt) }

// Overview returns the root folder of the default branch and the README in it. It returns nil for
// a repository without a commit on that branch. Its errors are those of Page.
func (p *Pages) Overview(ctx context.Context, q *Request) (*Overview, error) {
	var err error
	if q.git, err = p.reader.Open(ctx, q.Repo, q.By); err != nil {
		return nil, err
	}
	defer q.git.Close()
	t, ok := q.git.HEAD()
	if !ok {
		return nil, nil
	}
	root, err := q.git.RootTree(t)
	if err != nil {
		return nil, err
	}
	entries, err := q.git.Tree(root)
	if err != nil {
		return nil, err
	}
	v := &Overview{Ref: fileName(t.Name()), Tree: template.URL(q.url("tree", t))}
	rows := sortedEntries(entries)
	if len(rows) > maxOverviewEntries {
		v.Hidden, rows = len(rows)-maxOverviewEntries, rows[:maxOverviewEntries]
	}
	changes, err := q.git.LastChanges(t.Commit, nil)
	if err != nil {
		return nil, err
	}
	if v.Rows, err = p.rows(q, t, root, nil, root, rows, changes); err != nil {
		return nil, err
	}
	if v.Last, err = q.lastChange(t, nil); err != nil {
		return nil, err
	}
	if e := readmeOf(entries); e != nil {
		content, err := q.git.Blob(e.ID, maxReadme)
		if err != nil && !isLeftOut(err) {
			return nil, err
		}
		v.ReadmeName, v.ReadmeURL = fileName(e.Name), template.URL(q.url("blob", t, e.Name))
		if err == nil {
			v.Readme = q.document(ctx, t, e.Name, string(content))
		}
	}
	sizes, err := q.git.ByteCounts(t, languageAt)
	if err != nil {
		return nil, err
	}
	v.Languages = sharesOf(sizes)
	if e := licenceOf(entries); e != nil {
		content, err := q.git.Blob(e.ID, maxLicence)
		if err != nil && !isLeftOut(err) {
			return nil, err
		}
		v.Licence, v.File = licenceName(string(content)), template.URL(q.url("blob", t, e.Name))
	}
	return v, nil
}

// isLeftOut reports whether a page leaves a file out, because of an error that another page explains.
func isLeftOut(err error) bool {
	return errors.Is(err, gitread.ErrTooLarge) || errors.As(err, new(*gitread.TakenDown))
}

// sortedEntries returns folders first, and names in their order.
func sortedEntries(entries []gitread.Entry) []gitread.Entry {
	rows := slices.Clone(entries)
	slices.SortStableFunc(rows, func(a, b gitread.Entry) int {
		if folder := a.Mode == gitread.ModeTree; folder != (b.Mode == gitread.ModeTree) {
			return map[bool]int{true: -1, false: 1}[folder]
		}
		return strings.Compare(a.Name, b.Name)
	})
	return rows
}

// readmeOf returns the README among the entries of a folder, nil if there is none.
func readmeOf(entries []gitread.Entry) *gitread.Entry {
	return firstOf(entries, "readme.md", "readme.markdown", "readme", "readme.txt", "readme.rst", "readme.adoc", "readme.org")
}

// licenceOf returns the licence among the entries of a folder, nil if there is none.
func licenceOf(entries []gitread.Entry) *gitread.Entry {
	return firstOf(entries, "license", "license.md", "license.txt", "licence", "licence.md", "licence.txt", "copying", "copying.md", "unlicense")
}

// firstOf returns the file that has the first of some names, in any case.
func firstOf(entries []gitread.Entry, names ...string) *gitread.Entry {
	found, rank := (*gitread.Entry)(nil), len(names)
	for i := range entries {
		e := &entries[i]
		if e.Mode != gitread.ModeFile && e.Mode != gitread.ModeProgram || len(e.Name) > 32 {
			continue
		}
		if at := slices.Index(names[:rank], strings.ToLower(e.Name)); at >= 0 {
			found, rank = e, at
		}
	}
	return found
}

// IsMarkdown reports whether a file is Markdown by its name.
func IsMarkdown(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".md", ".markdown", ".mkd", ".mdown":
		return true
	}
	return false
}

// document returns a text of the repository as HTML. Links and images that are relative to it lead
// to pages and files of the same commit.
func (q *Request) document(ctx context.Context, t gitread.Target, name, content string) template.HTML {
	if !IsMarkdown(name) {
		return markdown.Plain(content)
	}
	// A query such as ?raw=true is for other servers.
	below := func(verb, destination string) string {
		u, err := url.Parse(destination)
		if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Path == "" {
			return ""
		}
		at := strings.TrimPrefix(path.Clean("/"+u.Path), "/")
		if !strings.HasPrefix(u.Path, "/") {
			at = strings.TrimPrefix(path.Clean("/"+path.Join(path.Dir(name), u.Path)), "/")
		}
		if at == "" || strings.ContainsRune(at, 0) {
			return q.url("tree", t)
		}
		to := q.url(verb, t, strings.Split(at, "/")...)
		if u.Fragment != "" && verb == "blob" {
			to += "#" + url.PathEscape(u.Fragment)
		}
		return to
	}
	return markdown.Render(ctx, content, markdown.Options{
		Heading: 2, Anchors: "readme-", Mention: q.Mention,
		Href: func(destination string) string {
			if to := below("blob", destination); to != "" {
				return to
			}
			if q.Href != nil {
				return q.Href(destination)
			}
			return ""
		},
		Image: func(destination string) string { return below("raw", destination) },
	})
}

// licences are texts by which licences are known, the more special ones first.
var licences = [...]struct{ name, text string }{
	{"AGPL-3.0", "gnu affero general public license version 3"},
	{"LGPL-3.0", "gnu lesser general public license version 3"},
	{"LGPL-2.1", "gnu lesser general public license version 2.1"},
	{"GPL-3.0", "gnu general public license version 3"},
	{"GPL-2.0", "gnu general public license version 2"},
	{"Apache-2.0", "apache license version 2.0"},
	{"MPL-2.0", "mozilla public license version 2.0"},
	{"EUPL-1.2", "european union public licence v. 1.2"},
	{"CC0-1.0", "cc0 1.0 universal"},
	{"BSL-1.0", "boost software license - version 1.0"},
	{"Unlicense", "this is free and unencumbered software released into the public domain"},
	{"ISC", "permission to use, copy, modify, and/or distribute this software for any purpose with or without fee"},
	{"ISC", "permission to use, copy, modify, and distribute this software for any purpose with or without fee"},
	{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"BSD-3-Clause", "neither the name of"},
	{"BSD-2-Clause", "redistributions in binary form must reproduce the above copyright notice"},
	{"Zlib", "altered source versions must be plainly marked as such"},
	{"WTFPL", "do what the fuck you want to public license"},
}

// licenceName returns the SPDX name of a licence, "" for one that is not known.
func licenceName(content string) string {
	words := strings.Join(strings.Fields(strings.ToLower(content)), " ")
	words = strings.ReplaceAll(words, "license, version", "license version")
	for _, l := range licences {
		if strings.Contains(words, l.text) {
			return l.name
		}
	}
	return ""
}

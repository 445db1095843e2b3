package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/sdk/nip19"
)

const composeHelp = `A tag is written as NAME=VALUE, with ; before each further value, or as a JSON array of strings, which also serves for values
with a ; in them. A NAME alone is a tag without a value. In the tags p, P, e, E, q, a and A the first value may be an npub, a note, a nevent or an naddr.
--json takes a template with any of kind, content, tags and created_at; the other options come on top of it.`

// composing are the options that say what is signed.
type composing struct {
	kind    uint16
	content string
	tags    []string
	json    string
	cmd     *cobra.Command
}

// composeOptions are the names of these options, and of created-at.
var composeOptions = []string{"kind", "content", "tag", "json", "created-at"}

func (c *composing) flags(cmd *cobra.Command) {
	c.cmd = cmd
	f := cmd.Flags()
	f.Uint16Var(&c.kind, "kind", 1, "the event's `kind`, 0 to 65535")
	f.StringVar(&c.content, "content", "", "the event's `text`; - reads it from standard input")
	// No list in one value: tags have commas.
	f.StringArrayVar(&c.tags, "tag", nil, "a `tag`, NAME=VALUE;VALUE or a JSON array; may be repeated")
	f.StringVar(&c.json, "json", "", "a template `file`, a JSON object; - reads it from standard input")
}

// compose returns the event that the options describe, not signed.
func (c *composing) compose() (*host.Event, error) {
	set := c.cmd.Flags().Changed
	e := &host.Event{Kind: 1}
	if c.json == "-" && c.content == "-" {
		return nil, errors.New("only one of --json and --content can come from standard input")
	}
	if set("json") {
		if err := c.template(e); err != nil {
			return nil, fmt.Errorf("the template is wrong: %w", err)
		}
	}
	if set("kind") {
		e.Kind = host.Kind(c.kind)
	}
	switch {
	case c.content == "-":
		text, err := readInput(c.cmd.InOrStdin())
		if err != nil {
			return nil, fmt.Errorf("read the content: %w", err)
		}
		e.Content = strings.TrimSuffix(string(text), "\n")
	case set("content"):
		e.Content = c.content
	case !set("json") && e.Kind == 1:
		return nil, errors.New("a note without text: say with --content what it says, or with --kind what else it is")
	}
	for _, text := range c.tags {
		tag, err := parseTag(text)
		if err != nil {
			return nil, err
		}
		e.Tags = append(e.Tags, tag)
	}
	return e, nil
}

// template reads an event without what signing adds.
func (c *composing) template(e *host.Event) error {
	var in io.Reader = c.cmd.InOrStdin()
	if c.json != "-" {
		f, err := os.Open(c.json)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	text, err := readInput(in)
	if err != nil {
		return err
	}
	if !utf8.Valid(text) {
		return errors.New("it is not valid UTF-8")
	}
	draft := struct {
		Kind      *uint16   `json:"kind"`
		Content   string    `json:"content"`
		Tags      host.Tags `json:"tags"`
		CreatedAt int64     `json:"created_at"`
	}{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&draft); err != nil {
		if err == io.EOF {
			err = errors.New("it is empty")
		}
		return fmt.Errorf("%w (it may have kind, content, tags and created_at; signing adds the rest)", err)
	}
	if d.More() {
		return errors.New("there is text after the JSON object")
	}
	for _, tag := range draft.Tags {
		if len(tag) == 0 {
			return errEmptyTag
		}
	}
	if draft.Kind != nil {
		e.Kind = host.Kind(*draft.Kind)
	}
	e.Content, e.Tags, e.CreatedAt = draft.Content, draft.Tags, draft.CreatedAt
	return nil
}

var errEmptyTag = errors.New("a tag is empty: it must have a name")

// parseTag reads a tag as the command line has it.
func parseTag(text string) (host.Tag, error) {
	if strings.HasPrefix(text, "[") {
		var tag host.Tag
		if err := json.Unmarshal([]byte(text), &tag); err != nil {
			return nil, fmt.Errorf("the tag %q is no JSON array of strings: %w", text, err)
		}
		if len(tag) == 0 {
			return nil, errEmptyTag
		}
		return tag, nil
	}
	name, values, has := strings.Cut(text, "=")
	if name == "" {
		return nil, errEmptyTag
	}
	if !has {
		return host.Tag{name}, nil
	}
	tag := append(host.Tag{name}, strings.Split(values, ";")...)
	value, err := plainValue(name, tag[1])
	if err != nil {
		return nil, fmt.Errorf("the tag %q is wrong: %w", text, err)
	}
	tag[1] = value
	return tag, nil
}

// plainValue returns what events hold instead of the form that people write
// (NIP-19): hex, or an address.
func plainValue(name, value string) (string, error) {
	prefix, _, _ := strings.Cut(value, "1")
	switch prefix {
	case "npub":
		if name == "p" || name == "P" {
			key, err := nip19.ParsePubKey(value)
			return host.PubKey(key).String(), err
		}
	case "note", "nevent":
		if name == "e" || name == "E" || name == "q" {
			id, err := nip19.ParseEventID(value)
			return host.ID(id).String(), err
		}
	case "naddr":
		if name == "a" || name == "A" || name == "q" {
			a, err := nip19.DecodeNaddr(value)
			return host.Address{Kind: host.Kind(a.Kind), PubKey: a.PubKey, D: a.D}.String(), err
		}
	}
	return value, nil
}

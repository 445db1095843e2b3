package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
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

func eventCommand() *cobra.Command {
	cmd := onlyHelps(&cobra.Command{
		Use:   "event",
		Short: "Sign events with a key file, publish and query them",
		Long: `Sign events with a key file, publish them to relays, and ask relays for events.

The secret key is in a file that only you can read. It is never an argument, for others can see those, and no command but
key writes it anywhere. --key says which file; without it, the environment variable TALON_KEY_FILE does. --signer, or the
variable TALON_SIGNER, names a remote signer instead, which keeps the key (NIP-46).`,
		Example: `  talon event key --out alice.key
  export TALON_KEY_FILE=alice.key
  talon event publish --content 'hello' ws://localhost:7777
  talon event query ws://localhost:7777 '{"kinds":[1]}'

  # a git repository, announced and pushed
  talon event announce --name demo --server ws://localhost:7777
  talon event push http://localhost:7777/npub1…/demo.git main`,
	}, eventKeyCommand(), eventSignCommand(), eventPublishCommand(), eventQueryCommand(),
		eventAnnounceCommand(), eventPushCommand(), eventStateCommand())
	for _, c := range append(cmd.Commands(), cmd) {
		guardArgs(c)
	}
	return cmd
}

// secretText is what looks like a secret key as NIP-19 writes it.
var secretText = regexp.MustCompile(`(?i)(^|[^0-9a-z])(nsec|ncryptsec)1[0-9a-z]{20}`)

var errSecretArg = errors.New("an argument looks like a secret key: arguments stand in the history of the shell, and every user of the machine can see them. " +
	"Treat this key as known to others; talon event key makes a new one in a file")

// guardArgs refuses secret keys among the arguments, before anything quotes them.
func guardArgs(cmd *cobra.Command) {
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		for _, arg := range args {
			if secretText.MatchString(arg) {
				return errSecretArg
			}
		}
		return check(cmd, args)
	}
}

func eventSignCommand() *cobra.Command {
	var who signing
	var what composing
	cmd := &cobra.Command{
		Use:   "sign",
		Short: "Sign an event and print it as JSON",
		Long: `Sign an event and print it as one line of JSON.

` + composeHelp,
		Example: `  talon event sign --key alice.key --content 'hello'
  echo 'a longer text' | talon event sign --key alice.key --content -
  talon event sign --key alice.key --kind 1621 --content 'It crashes' \
      --tag 'a=30617:<hex key>:demo' --tag 'subject=A crash'
  talon event sign --key alice.key --json draft.json`,
		Args: cobra.NoArgs,
	}
	who.flags(cmd)
	what.flags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		e, err := what.compose()
		if err != nil {
			return err
		}
		key, err := who.open()
		if err != nil {
			return err
		}
		defer key.close()
		if err := who.sign(key, e); err != nil {
			return err
		}
		return printEvent(cmd, e)
	}
	return cmd
}

func printEvent(cmd *cobra.Command, e *host.Event) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", e.JSON)
	return err
}

// inputBytes bounds what is read to make one event.
const inputBytes = 16 << 20

// readInput reads all of r, the content or the template of one event.
func readInput(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, inputBytes+1))
	if err == nil && len(text) > inputBytes {
		err = errors.New("it is longer than 16 MiB")
	}
	return text, err
}

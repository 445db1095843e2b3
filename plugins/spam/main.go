// Command spam is a policy against three kinds of unwanted text: the same text again and again
// from any author, events that mention very many people, and events of little but links.
//
// Texts are the same if they have the same letters and digits in the same order. White space,
// punctuation, emoji, separate accents, case and mentioned people (nostr:npub1…) make no
// difference. The policy compares the first 2 KiB of a text, and looks for mentions and links in
// the first 32 KiB. A text may be posted a number of times in a burst, and then as often again in
// each period. The host keeps a token bucket for the hash of each text. So an author of very many
// texts takes no room from others.
//
// The text of git events (NIP-34) may repeat itself and be full of links: only their
// mentions count, unless the operator sets otherwise.
//
// Members of the set "trusted" may write anything: the author, or any key that the client has
// proven (NIP-42). A person who knows a text before it is posted can use up its copies. A
// decision allocates nothing.
package main

import (
	_ "embed"
	"encoding/binary"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"talon/sdk/policy"
	"talon/sdk/policy/kinds"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, new(spam))

func main() {}

// trusted is the set whose members may write anything.
const trusted = "trusted"

// spam are the settings of the manifest; zero is no limit.
type spam struct {
	kinds *kinds.Set
	git   bool // git events are judged in full

	copies      int
	every       time.Duration // one more copy is allowed
	minText     int
	mentions    int
	links       int
	linkPercent int
	percentFrom int // links

	copied, mentioning, linking, linksOnly policy.Verdict
}

func (s *spam) Configure(cfg policy.Config) (err error) {
	if s.kinds, err = kinds.Parse(cfg, "kinds"); err != nil {
		return err
	}
	s.git = cfg.Bool("judge_git")
	s.copies = int(cfg.Int("max_copies"))
	if s.copies > 0 {
		s.every = time.Duration(cfg.Int("copies_minutes")) * time.Minute / time.Duration(s.copies)
	}
	s.minText = int(cfg.Int("copies_from_bytes"))
	s.mentions = int(cfg.Int("max_mentions"))
	s.links = int(cfg.Int("max_links"))
	s.linkPercent = int(cfg.Int("max_link_percent"))
	s.percentFrom = int(cfg.Int("link_percent_from"))

	refuse := func(rule, text string) policy.Verdict {
		if cfg.String("action") == "shadow-reject" {
			return policy.ShadowReject().By(rule)
		}
		return policy.Reject("blocked", text).By(rule)
	}
	s.copied = refuse("copies", "this text was posted too often, try again later or say it in other words")
	s.mentioning = refuse("mentions", "an event may mention at most "+strconv.Itoa(s.mentions)+" people")
	s.linking = refuse("links", "a text may have at most "+strconv.Itoa(s.links)+" links")
	s.linksOnly = refuse("link-percent", "the text is almost nothing but links")
	return nil
}

// Idle returns admit while there is no limit.
func (s *spam) Idle() []string {
	if s.copies > 0 || s.mentions > 0 || s.links > 0 || s.linkPercent > 0 {
		return nil
	}
	return []string{"admit"}
}

// Admit judges text and mentions. Events of an import are the operator's own choice.
func (s *spam) Admit(in policy.Input) policy.Verdict {
	event := in.Event()
	if in.Origin() == policy.FromImport || s.kinds != nil && !s.kinds.Has(event.Kind()) {
		return policy.Pass()
	}
	prose := s.git || kinds.ClassOf(event.Kind()) != kinds.Git
	text := read(event.Content(), prose)
	switch {
	case s.mentions > 0 && (text.mentions > s.mentions || s.namesTooMany(event)):
		return unless(in, s.mentioning)
	case !prose:
		return policy.Pass()
	case s.links > 0 && text.links > s.links:
		return unless(in, s.linking)
	case s.linkPercent > 0 && text.links >= s.percentFrom && text.linkBytes*100 > text.bytes*s.linkPercent:
		return unless(in, s.linksOnly)
	case s.copies == 0 || text.compared < max(s.minText, 1) || in.SenderInSet(trusted):
		return policy.Pass() // trusted texts are not counted
	}
	var key [8]byte
	binary.LittleEndian.PutUint64(key[:], text.hash)
	if _, ok := in.Take(in.Key("text:", string(key[:])), 1, s.copies, s.every); !ok {
		return s.copied
	}
	return policy.Pass()
}

// namesTooMany reports whether too many p tags have a key. Such a tag takes 71 bytes
// at least: most events need no walk over their tags.
func (s *spam) namesTooMany(event policy.Event) bool {
	if event.TagBytes()/71 <= s.mentions {
		return false
	}
	n := 0
	for it := event.Tags(); it.Next() && n <= s.mentions; {
		if it.Name() == "p" && len(it.Value()) == 64 {
			n++
		}
	}
	return n > s.mentions
}

// unless returns the verdict, or a pass for people whom the operator trusts.
func unless(in policy.Input, verdict policy.Verdict) policy.Verdict {
	if in.SenderInSet(trusted) {
		return policy.Pass()
	}
	return verdict
}

// text has the properties of a content that the rules need.
type text struct {
	bytes     int // without white space
	links     int
	linkBytes int
	mentions  int // nostr: addresses of people

	looked   int    // bytes of which these are:
	compared int    // bytes that texts are compared by
	hash     uint64 // of these
}

// Bounds of the work on a text, so that an event of the largest size costs no more than a long one.
const (
	readBytes     = 32 << 10 // for mentions and links
	comparedBytes = 2 << 10  // compared to find equal texts
)

// FNV-1a. Texts with the same hash count as copies. An author who constructs them gains nothing:
// posting one text twice has the same effect.
const (
	hashStart = 14695981039346656037
	hashPrime = 1099511628211
)

// read looks through the beginning of a content word by word. Only mentions are counted unless it is
// prose.
func read(content string, prose bool) text {
	t := text{hash: hashStart}
	content = content[:min(len(content), readBytes)]
	for at := 0; at < len(content); {
		if isSpace(content[at]) {
			at++
			continue
		}
		end := wordEnd(content, at)
		word := content[at:end]
		at = end
		if prose {
			t.bytes += len(word)
		}
		// A word may have punctuation around it, or words that run into it.
		for len(word) > 0 {
			n, what := address(word)
			t.count(word[:n], what, prose)
			word = word[n:]
		}
	}
	return t
}

func isSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// wordEnd returns where the word that begins at a place ends.
func wordEnd(content string, at int) int {
	for at < len(content) && !isSpace(content[at]) {
		at++
	}
	return at
}

// what is the sort of a piece of a word.
type what uint8

const (
	plain   what = iota
	link         // http:// or https:// to the end of the word
	mention      // nostr:npub1… or nostr:nprofile1…
	other        // another nostr: address
)

// address returns the length and the sort of the piece at the start of a word. A plain piece ends
// before the next address.
func address(word string) (int, what) {
	switch {
	case begins(word, "http://"), begins(word, "https://"):
		return len(word), link
	case begins(word, "nostr:"):
		kind := other
		if rest := word[len("nostr:"):]; begins(rest, "npub1") || begins(rest, "nprofile1") {
			kind = mention
		}
		return addressEnd(word), kind
	}
	return plainEnd(word), plain
}

// addressEnd returns where a nostr: address ends.
func addressEnd(word string) int {
	n := len("nostr:")
	for n < len(word) && (word[n]|0x20 >= 'a' && word[n]|0x20 <= 'z' || word[n] >= '0' && word[n] <= '9') {
		n++
	}
	return n
}

// plainEnd returns where an address begins, after the first byte of a word. Addresses
// begin with h or n.
func plainEnd(word string) int {
	for n := 1; n < len(word); n++ {
		if c := word[n] | 0x20; (c == 'h' || c == 'n') && isAddress(word[n:]) {
			return n
		}
	}
	return len(word)
}

func isAddress(word string) bool {
	return begins(word, "http://") || begins(word, "https://") || begins(word, "nostr:")
}

// begins reports whether a word begins with a lower-case text, in any case.
func begins(word, with string) bool {
	if len(word) < len(with) {
		return false
	}
	for i := range len(with) {
		c := word[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != with[i] {
			return false
		}
	}
	return true
}

func (t *text) count(piece string, what what, prose bool) {
	switch what {
	case mention:
		t.mentions++
		return
	case link:
		t.links++
		t.linkBytes += len(piece)
	case other:
		return
	}
	if prose && t.looked < comparedBytes {
		piece = piece[:min(len(piece), comparedBytes-t.looked)]
		t.looked += len(piece)
		t.compare(piece)
	}
}

// compare adds the letters and digits of a piece to the form by which texts are compared.
func (t *text) compare(piece string) {
	hash, n := t.hash, 0
	for i := 0; i < len(piece); {
		c := piece[i]
		if c >= utf8.RuneSelf {
			t.hash, t.compared = hash, t.compared+n
			size := t.compareRune(piece[i:])
			hash, n, i = t.hash, 0, i+size
			continue
		}
		i++
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			hash = (hash ^ uint64(c)) * hashPrime
			n++
		}
	}
	t.hash, t.compared = hash, t.compared+n
}

// compareRune is compare for the character that a piece begins with. It returns its
// length.
func (t *text) compareRune(piece string) int {
	r, size := utf8.DecodeRuneInString(piece)
	if r == utf8.RuneError {
		return size // a byte that is no UTF-8
	}
	if r = unicode.ToLower(r); unicode.IsLetter(r) || unicode.IsDigit(r) {
		t.hash = (t.hash ^ uint64(r)) * hashPrime
		t.compared += size
	}
	return size
}

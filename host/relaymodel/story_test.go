package relaymodel

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"talon/host"
	"talon/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write what the relays do into the stories")

// storyStart is the time at which stories begin, in unix seconds.
const storyStart = 1_700_000_000

// Each file of testdata is a dialogue with relays:
//
//	profile strfry               a new relay
//	key limits.filters = 2       a new relay of that profile, with TOML behind it
//	event NAME KIND AT [TAG=V]   an event of a time in seconds from the start
//	notes N                      events n1 … of kind 1, each a second older
//	add NAME                     is published elsewhere
//	open C                       a connection
//	wait 5s                      time passes
//	C> FRAME                     the client sends; $NAME is an event, $NAME.id its id
//	C< FRAME                     the relay sends; written by go test -rewrite
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d stories: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := (&story{t: t, events: map[string]*host.Event{}}).run(want)
			if bytes.Equal(got, want) {
				return
			}
			if *rewrite {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("%s differs from what the relays do (go test -rewrite):\n%s", file, got)
		})
	}
}

type story struct {
	t       *testing.T
	profile string
	keys    string
	relay   *Relay
	now     int64
	conns   map[string]uint64
	names   map[uint64]string
	events  map[string]*host.Event
	out     bytes.Buffer
}

func (s *story) run(text []byte) []byte {
	s.now = storyStart * 1000
	for sc := bufio.NewScanner(bytes.NewReader(text)); sc.Scan(); {
		line := sc.Text()
		if len(line) > 1 && line[1] == '<' {
			continue
		}
		fmt.Fprintln(&s.out, line)
		if line == "" || line[0] == '#' {
			continue
		}
		s.do(line)
	}
	return s.out.Bytes()
}

func (s *story) do(line string) {
	word, rest, _ := strings.Cut(line, " ")
	switch {
	case word == "profile":
		s.profile, s.keys = rest, ""
		s.start()
	case word == "key":
		s.keys += rest + "\n"
		s.start()
	case word == "event":
		s.sign(strings.Fields(rest))
	case word == "notes":
		n, _ := strconv.Atoi(rest)
		for i := 1; i <= n; i++ {
			s.sign([]string{fmt.Sprint("n", i), "1", strconv.Itoa(-i)})
			s.effects(s.relay.Add(s.events[fmt.Sprint("n", i)], s.now))
		}
	case word == "add":
		s.effects(s.relay.Add(s.events[rest], s.now))
	case word == "open":
		id, status, effects := s.relay.Open(netip.MustParseAddr("192.0.2.1"), s.now)
		if status != 101 {
			fmt.Fprintf(&s.out, "%s< status %d\n", rest, status)
			break
		}
		s.conns[rest], s.names[id] = id, rest
		s.effects(effects)
	case word == "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			s.t.Fatal(err)
		}
		// As a server does: at each time at which something is due.
		end := s.now + d.Milliseconds()
		for at, ok := s.relay.Next(); ok && at <= end; at, ok = s.relay.Next() {
			s.effects(s.relay.Turn(at))
		}
		s.now = end
		s.effects(s.relay.Turn(s.now))
	case len(word) == 2 && word[1] == '>':
		for name, e := range s.events {
			rest = strings.ReplaceAll(rest, "$"+name+".id", e.ID.String())
		}
		for name, e := range s.events {
			rest = strings.ReplaceAll(rest, "$"+name+"]", string(e.JSON)+"]")
		}
		if size, ok := strings.CutPrefix(rest, "large "); ok {
			n, _ := strconv.Atoi(size)
			rest = `["REQ","large",{"#x":["` + strings.Repeat("x", n) + `"]}]`
		}
		s.effects(s.relay.Receive(s.conns[word[:1]], []byte(rest), s.now))
	default:
		s.t.Fatalf("%q is no line of a story", line)
	}
}

func (s *story) start() {
	p, err := Default(), error(nil)
	if s.profile != "default" {
		p, err = Builtin(s.profile)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	p, err = p.With([]byte(s.keys))
	if err != nil {
		s.t.Fatal(err)
	}
	s.relay, s.conns, s.names = New(p, 1, s.now), map[string]uint64{}, map[uint64]string{}
}

func (s *story) sign(words []string) {
	kind, _ := strconv.Atoi(words[1])
	at, _ := strconv.Atoi(words[2])
	var tags []host.Tag
	for _, w := range words[3:] {
		name, value, _ := strings.Cut(w, "=")
		for other, e := range s.events {
			if value == "$"+other+".id" {
				value = e.ID.String()
			}
		}
		tags = append(tags, host.Tag{name, value})
	}
	s.events[words[0]] = testkit.NewSigner(1).Event(host.Kind(kind), storyStart+int64(at), words[0], tags...)
}

func (s *story) effects(list []Effect) {
	for _, e := range list {
		text := string(e.Frame)
		switch {
		case e.Frame != nil:
		case e.Code != 0:
			text = strings.TrimSpace(fmt.Sprintf("closed with %d %s", e.Code, e.Reason))
		default:
			text = "dropped"
		}
		for name, e := range s.events {
			text = strings.ReplaceAll(text, string(e.JSON), "$"+name)
		}
		for name, e := range s.events {
			text = strings.ReplaceAll(text, e.ID.String(), "$"+name+".id")
		}
		fmt.Fprintf(&s.out, "%s< %s\n", s.names[e.Conn], text)
	}
}

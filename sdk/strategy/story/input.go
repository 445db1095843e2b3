package story

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"talon/sdk/abi"
)

// words are those of a line that are still to be read.
type words struct {
	s    *play
	line string
	rest []string
}

// input carries out one line of a story.
func (s *play) input(line string) {
	w := &words{s, line, strings.Fields(line)}
	switch verb := w.next(); verb {
	case "config":
		s.configure(w)
	case "limits":
		s.init.Limits = Limits
		for len(w.rest) > 0 {
			*w.limit(&s.init.Limits, w.next()) = uint32(w.number())
		}
	case "seed":
		s.init.Seed = w.number()
	case "own":
		s.init.Own = w.all()
	case "relay":
		s.init.Relays = append(s.init.Relays, w.relay())
	case "repo":
		s.init.Repositories = append(s.init.Repositories, w.repos()...)
	case "init":
		if s.player == nil {
			step, err := s.load(s.config)
			if err != nil {
				failf("configure: %w", err)
			}
			s.player = NewPlayer(step)
		}
		init := s.init
		s.init = &abi.StepInit{Seed: 1}
		clear(s.asked)
		s.step(init)
	case "event":
		s.events(w)
	case "active":
		a := &abi.RootActivity{}
		for _, id := range w.list() {
			a.Roots, a.Latest = append(a.Roots, w.id(id)), append(a.Latest, uint32(s.now()/1000))
		}
		w.options(map[string]func(){
			"at": func() {
				at := uint32((Start + w.time()) / 1000)
				for i := range a.Latest {
					a.Latest[i] = at
				}
			},
			"by": func() {
				for _, key := range w.list() {
					for i := range a.Roots {
						a.Authors, a.AuthorRoots = append(a.Authors, w.id(key)), append(a.AuthorRoots, uint32(i))
					}
				}
			},
		}, nil)
		s.step(a)
	case "progress":
		s.said = append(s.said, s.progress[w.next()])
	case "gone":
		s.step(&abi.RepoGone{Repository: w.next()})
	case "connected":
		c := &abi.RelayConnected{Relay: w.next()}
		w.options(map[string]func(){
			"ended": func() { c.DisconnectedAt = Start + w.time() },
			"last":  func() { c.LastConnected = Start + w.time() },
			"anew":  func() { c.Anew = true },
		}, &c.Capabilities)
		delete(s.asked, c.Relay)
		s.step(c)
	case "disconnected", "failed":
		d := &abi.RelayDisconnected{Relay: w.next(), Class: w.class(), Connected: verb == "disconnected", RetryAt: s.now() + 1}
		w.options(map[string]func(){
			"failures": func() { d.Failures = uint32(w.number()) },
			"retry":    func() { d.RetryAt = Start + w.time() },
			"never":    func() { d.RetryAt = 0 },
		}, nil)
		delete(s.asked, d.Relay)
		s.step(d)
	case "eose":
		e := abi.Eose{Relay: w.next(), ID: w.next()}
		w.options(map[string]func(){
			"events": func() { e.Events = uint32(w.number()) },
			"new":    func() { e.New = uint32(w.number()) },
			"oldest": func() { e.MinCreatedAt = (Start + w.time()) / 1000 },
		}, nil)
		s.each(e.Relay, e.ID, func(id string) { e.ID = id; s.step(&e) })
	case "closed":
		c := &abi.Closed{Relay: w.next(), ID: w.next(), Class: w.class()}
		s.answered(c.Relay, c.ID)
		s.step(c)
	case "done":
		d := abi.HistoricDone{Relay: w.next(), ID: w.next(), Method: abi.MethodNegentropy, Complete: true}
		w.options(map[string]func(){
			"req":        func() { d.Method = abi.MethodREQ },
			"incomplete": func() { d.Complete, d.Class = false, w.class() },
			"need":       func() { d.Need = uint32(w.number()) },
			"new":        func() { d.New = uint32(w.number()) },
			"kept":       func() { d.Kept = uint32(w.number()) },
			"have":       func() { d.Have = uint32(w.number()) },
			"sent":       func() { d.Sent = w.number() },
			"letter":     func() { d.OtherLetter = uint32(w.number()) },
			"oldest":     func() { d.MinCreatedAt = (Start + w.time()) / 1000 },
		}, nil)
		s.each(d.Relay, d.ID, func(id string) { d.ID = id; s.step(&d) })
	case "repeats":
		s.step(&abi.Repeats{Relay: w.next(), Events: uint32(w.number())})
	case "after":
		s.pass(w.time())
	default:
		w.fail("%q is no input", verb)
	}
	if len(w.rest) > 0 {
		w.fail("%q is too much", w.rest[0])
	}
}

func (s *play) now() int64 {
	if s.player == nil {
		return Start
	}
	return s.player.Now
}

func (s *play) configure(w *words) {
	key := w.next()
	var list []any
	for _, v := range w.all() {
		n, err := strconv.ParseInt(v, 10, 64)
		switch {
		case v == "true" || v == "false":
			list = append(list, v == "true")
		case err == nil:
			list = append(list, n)
		default:
			list = append(list, v)
		}
	}
	if len(list) == 1 && key != "own_kinds" {
		s.config[key] = list[0]
		return
	}
	s.config[key] = list
}

// events are local events, one for each id.
func (s *play) events(w *words) {
	e := abi.LocalEvent{Kind: uint32(w.number()), Level: abi.SyncLevelFull, CreatedAt: s.now() / 1000}
	var ids []string
	for len(w.rest) > 0 && strings.Contains(w.rest[0], ":") {
		e.Repositories = append(e.Repositories, w.run()...)
	}
	w.options(map[string]func(){
		"id":     func() { ids = w.list() },
		"relays": func() { e.Relays = w.list() },
		"level":  func() { e.Level = w.level() },
		"from":   func() { e.Origin, e.Relay = abi.OriginSync, w.next() },
		"at":     func() { e.CreatedAt = (Start + w.time()) / 1000 },
	}, nil)
	if ids == nil {
		s.step(&e)
	}
	for _, id := range ids {
		e.ID = w.id(id)
		s.step(&e)
	}
}

func (w *words) fail(format string, args ...any) {
	failf("%s: %s", w.line, fmt.Sprintf(format, args...))
}

func (w *words) next() string {
	if len(w.rest) == 0 {
		w.fail("something is missing at the end")
	}
	word := w.rest[0]
	w.rest = w.rest[1:]
	return word
}

func (w *words) all() []string {
	all := w.rest
	w.rest = nil
	return all
}

// options reads keywords, each with the words after it.
func (w *words) options(known map[string]func(), caps *abi.Capabilities) {
	for len(w.rest) > 0 {
		name := w.next()
		read, ok := known[name]
		if !ok && caps != nil {
			read, ok = w.capability(caps, name)
		}
		if !ok {
			w.fail("%q is not known here", name)
		}
		read()
	}
}

func (w *words) capability(c *abi.Capabilities, name string) (func(), bool) {
	numbers := map[string]*uint32{
		"max_subscriptions": &c.MaxSubscriptions, "max_filters": &c.MaxFilters, "max_limit": &c.MaxLimit, "max_message": &c.MaxMessage,
		"max_values": &c.MaxValues,
	}
	if n := numbers[name]; n != nil {
		return func() { *n = uint32(w.number()) }, true
	}
	if name == "auth" {
		return func() { c.AuthRequired = true }, true
	}
	return func() {
		if c.Negentropy = abi.SupportNo; w.next() == "yes" {
			c.Negentropy = abi.SupportYes
		}
	}, name == "negentropy"
}

func (w *words) limit(l *abi.StepLimits, name string) *uint32 {
	limit := map[string]*uint32{
		"connections": &l.Connections, "subscriptions": &l.Subscriptions, "filters": &l.Filters, "values": &l.Values,
		"historics": &l.Historics, "timers": &l.Timers, "actions": &l.Actions, "bytes": &l.Bytes,
	}[name]
	if limit == nil {
		w.fail("%q is no limit", name)
	}
	return limit
}

func (w *words) relay() abi.RelayState {
	r := abi.RelayState{URL: w.next()}
	w.options(map[string]func(){
		"bootstrap": func() { r.Bootstrap = true },
		"wanted":    func() { r.Wanted = true },
		"connected": func() { r.Connected, r.LastConnected = true, Start },
		"sub": func() {
			r.Subscriptions = append(r.Subscriptions, abi.OpenSubscription{ID: w.next(), Filters: []abi.Filter{{}}})
		},
		"historic": func() { r.Historics = append(r.Historics, abi.RunningHistoric{ID: w.next()}) },
	}, &r.Capabilities)
	return r
}

// repos reads the common fields of several repositories.
func (w *words) repos() []abi.KnownRepository {
	var list []abi.KnownRepository
	for len(w.rest) > 0 && strings.Contains(w.rest[0], ":") {
		for _, address := range w.run() {
			list = append(list, abi.KnownRepository{Address: address, Level: abi.SyncLevelFull})
		}
	}
	w.options(map[string]func(){
		"relays": func() {
			relays := w.list()
			for i := range list {
				list[i].Relays = relays
			}
		},
		"roots": func() {
			for _, id := range w.list() {
				for i := range list {
					list[i].Roots = append(list[i].Roots, w.id(id))
				}
			}
		},
		"authors": func() {
			for _, key := range w.list() {
				for i := range list {
					list[i].Authors, list[i].AuthorLatest = append(list[i].Authors, w.id(key)), append(list[i].AuthorLatest, uint32(Start/1000))
				}
			}
		},
		"level": func() {
			level := w.level()
			for i := range list {
				list[i].Level = level
			}
		},
	}, nil)
	return list
}

func (w *words) level() uint32 {
	if w.next() == "state" {
		return abi.SyncLevelState
	}
	return abi.SyncLevelFull
}

var keywords = []string{"relays", "roots", "authors", "level", "id", "from", "at", "by"}

// list reads words up to the next keyword.
func (w *words) list() []string {
	var list []string
	for len(w.rest) > 0 && !slices.Contains(keywords, w.rest[0]) {
		list = append(list, w.run()...)
	}
	return list
}

// run reads a word, or those that count up to another: r1..3 are r1 r2 r3.
func (w *words) run() []string {
	word := w.next()
	from, to, ok := strings.Cut(word, "..")
	if !ok {
		return []string{word}
	}
	last, err := strconv.Atoi(to)
	prefix, number := from[:len(from)-len(digits(from))], digits(from)
	first, err2 := strconv.Atoi(number)
	if err != nil || err2 != nil {
		w.fail("%s: want two numbers", word)
	}
	var list []string
	for n := first; n <= last; n++ {
		list = append(list, fmt.Sprintf("%s%0*d", prefix, len(number), n))
	}
	return list
}

// id reads up to four digits.
func (w *words) id(text string) [32]byte {
	b, err := hex.DecodeString(fmt.Sprintf("%04s", text))
	if err != nil || len(b) != 2 {
		w.fail("%s: want an id of at most four digits", text)
	}
	return [32]byte{b[0], b[1]}
}

func (w *words) number() int64 {
	n, err := strconv.ParseInt(w.next(), 10, 64)
	if err != nil {
		w.fail("%v", err)
	}
	return n
}

// time reads a length of time in milliseconds.
func (w *words) time() int64 {
	text := w.next()
	hours := ""
	if days, rest, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil {
			w.fail("%v", err)
		}
		hours, text = fmt.Sprintf("%dh", 24*n), rest
	}
	d, err := time.ParseDuration(hours + text)
	if err != nil {
		w.fail("%v", err)
	}
	return d.Milliseconds()
}

var classes = map[string]uint32{
	"other": abi.ClassOther, "rate-limited": abi.ClassRateLimited, "auth-required": abi.ClassAuthRequired, "restricted": abi.ClassRestricted,
	"unsupported": abi.ClassUnsupported, "too-much": abi.ClassTooMuch, "error": abi.ClassError, "unreachable": abi.ClassUnreachable,
	"lost": abi.ClassLost, "asked": abi.ClassAsked, "limit": abi.ClassLimit, "forbidden": abi.ClassForbidden,
}

func (w *words) class() uint32 {
	name := w.next()
	class, ok := classes[name]
	if !ok {
		w.fail("%s: no class", name)
	}
	return class
}

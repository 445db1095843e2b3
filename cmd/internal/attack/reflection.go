package attack

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"talon/host"
)

// reflection makes the server connect to others.
func reflection() []Attack {
	return []Attack{{
		Name: "reflection", Text: "announcements that are never pushed name relays and git servers of a victim",
		Count: 3, Unit: "announcements", Flags: []string{"--allow-private=true"},
		Max:     map[string]int64{"dials": 60},
		Prepare: prepareReflection,
	}}
}

// namedServers is how many relays, and how many git servers, each announcement names.
const namedServers = 100

func prepareReflection(_ context.Context, t *Target, count int) (Run, error) {
	l, err := net.Listen("tcp", "0.0.0.0:0") // all addresses of 127.0.0.0/8 are the victim's
	if err != nil {
		return nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	var messages [][]byte
	for i := range count {
		p := newPerson(fmt.Sprint("reflection ", i))
		name := fmt.Sprint("reflected-", i)
		clones, relays := host.Tag{"clone", t.url(p.repo(name).Path())}, host.Tag{"relays", "ws://" + t.Listen}
		for k := range namedServers {
			clones = append(clones, fmt.Sprintf("http://127.1.%d.%d:%d/%s.git", i, k+1, port, name))
			relays = append(relays, fmt.Sprintf("ws://127.2.%d.%d:%d", i, k+1, port))
		}
		e := p.sign(30617, int64(60-i), "", host.Tag{"d", name}, clones, relays)
		messages = append(messages, eventMessage(e), eventMessage(p.state(name, strings.Repeat("1", 40), int64(30-i))))
	}
	return func(ctx context.Context) Outcome {
		var v victim
		stop := context.AfterFunc(ctx, func() { _ = l.Close() })
		defer stop()
		go v.serve(ctx, l)
		accepted, refused, said := t.flood(ctx, attacker(0), messages)
		<-ctx.Done()
		v.wg.Wait()
		return Outcome{Figures{
			"accepted": accepted, "refused": refused,
			"dials": v.dials.Load(), "about": v.about.Load(), "git": v.git.Load(), "upgrades": v.upgrades.Load(),
		}, said}
	}, nil
}

// victim counts the connections and requests that reach it, and answers 404.
type victim struct {
	wg                          sync.WaitGroup
	dials, about, git, upgrades atomic.Int64
}

func (v *victim) serve(ctx context.Context, l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		v.dials.Add(1)
		v.wg.Go(func() { untilEnd(ctx, c, func() { v.answer(c) }) })
	}
}

func (v *victim) answer(c net.Conn) {
	for in := bufio.NewReader(c); ; {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		switch {
		case strings.Contains(req.Header.Get("Accept"), "nostr+json"):
			v.about.Add(1)
		case req.Header.Get("Upgrade") != "":
			v.upgrades.Add(1)
		default:
			v.git.Add(1)
		}
		_, _ = io.Copy(io.Discard, req.Body)
		if _, err := io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

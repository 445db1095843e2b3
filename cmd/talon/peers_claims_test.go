package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"talon/host"
	"talon/host/admin"
	"talon/host/relayclient"
	"talon/host/relaysync"
)

// peersClaim is how long Talon may lack an event of a relay that it calls complete, and how long the
// metrics may differ from the status.
const peersClaim = 15 * time.Second

// peersClaims has what Talon said of relays that was not true.
type peersClaims struct {
	looks     int
	complete  int                  // relays that were called complete, in all looks
	wrong     map[host.ID]string   // events that Talon lacked, and the relay
	differing map[string]time.Time // since when the metric of a relay has another value than the status
	lied      map[string]string    // relays of which the metric had one for long
	reasons   map[string]int       // why relays were not complete
}

// watch compares what Talon says of the relays with what it has, again and again.
func (w *peersWorld) watch(ctx context.Context) (c peersClaims) {
	c.wrong, c.lied, c.reasons = map[host.ID]string{}, map[string]string{}, map[string]int{}
	c.differing = map[string]time.Time{}
	ticks := time.NewTicker(2 * time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return c
		case <-ticks.C:
		}
		w.mu.Lock()
		s := w.talon
		w.mu.Unlock()
		if s == nil {
			continue
		}
		status, err := admin.Dial(filepath.Join(w.data, "admin", "talon.sock")).Sync(ctx, relaysync.Query{Limit: 1000})
		if err != nil {
			continue // it was just started, or ends
		}
		w.look(ctx, s, &c, &status)
	}
}

// look takes one look. The metrics and the events are asked for after the status.
func (w *peersWorld) look(ctx context.Context, s *process, c *peersClaims, status *relaysync.Snapshot) {
	c.looks++
	complete := map[string]bool{}
	for _, r := range status.Relays {
		complete[strings.TrimSuffix(r.Relay, "/")] = !r.Complete.IsZero()
		if !r.Complete.IsZero() {
			c.complete++
		}
		for _, o := range r.Open {
			c.reasons[o.What]++
		}
	}
	w.mu.Lock()
	var ids []host.ID
	for id, e := range w.sent {
		if w.seen[id].IsZero() && !e.deleted && time.Since(e.at) > peersClaim && complete[w.peers[e.peer].gate.URL()] && w.during(e) == "" {
			ids = append(ids, id)
		}
	}
	w.mu.Unlock()
	if len(ids) > 0 {
		served, err := servedBy(ctx, s.url, ids)
		if err != nil {
			return // it ends
		}
		w.mu.Lock()
		for _, id := range ids {
			if !served[id] {
				c.wrong[id] = w.peers[w.sent[id].peer].name
			}
		}
		w.mu.Unlock()
	}
	text, err := getText(ctx, s.web()+"/metrics")
	if err != nil {
		return
	}
	for _, p := range w.peers {
		now, url := time.Now(), p.gate.URL()
		metric := strings.Contains(text, fmt.Sprintf("talon_sync_relay_complete{relay=%q} 1", url)) || strings.Contains(text, fmt.Sprintf("talon_sync_relay_complete{relay=%q} 1", url+"/"))
		since, differs := c.differing[url]
		switch {
		case metric == complete[url]:
			delete(c.differing, url)
		case !differs:
			c.differing[url] = now
		case now.Sub(since) > peersClaim:
			c.lied[p.name] = fmt.Sprintf("complete by the metric: %v, by the status: %v", metric, complete[url])
		}
	}
}

// getText returns what a URL answers.
func getText(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// servedBy returns which of some events a relay serves.
func servedBy(ctx context.Context, url string, ids []host.ID) (map[host.ID]bool, error) {
	conn, err := relayclient.Dial(ctx, url, relayclient.Options{})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	served := map[host.ID]bool{}
	var texts []string
	for _, id := range ids {
		texts = append(texts, id.String())
	}
	filter, _ := json.Marshal(map[string]any{"ids": texts})
	err = conn.Query(ctx, filter, func(e *host.Event) bool {
		served[e.ID] = true
		return true
	})
	return served, err
}

// truthful checks what Talon said.
func (w *peersWorld) truthful(c *peersClaims) {
	w.Logf("claims: %d looks, %d times a relay was complete; reasons why others were not: %v", c.looks, c.complete, c.reasons)
	if len(c.wrong) > 0 {
		w.Errorf("relays were called complete although %d of their events were not here %v later: %v", len(c.wrong), peersClaim, c.wrong)
	}
	if len(c.lied) > 0 {
		w.Errorf("metrics and status differed for %v: %v", peersClaim, c.lied)
	}
	if c.complete == 0 {
		w.Errorf("no relay was ever complete")
	}
}

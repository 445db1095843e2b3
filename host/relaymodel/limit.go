package relaymodel

import (
	"strconv"
	"strings"

	"talon/host/wire"
)

// bucket holds what a client may still do. It begins full.
type bucket struct {
	left float64
	at   int64 // when it was last refilled
	used bool
}

// size is what a bucket holds.
func (r *Rate) size() float64 {
	if r.Burst > 0 {
		return float64(r.Burst)
	}
	return max(1, r.PerMinute)
}

// take takes one, and reports whether there was one.
func (b *bucket) take(r *Rate, now int64) bool {
	if r.PerMinute <= 0 {
		return true
	}
	if !b.used {
		b.left, b.used = r.size(), true
	} else {
		b.left = min(r.size(), b.left+float64(now-b.at)*r.PerMinute/60_000)
	}
	b.at = now
	if b.left < 1 && r.By != "delay" {
		return false
	}
	b.left--
	return b.left >= 0
}

// wait returns the milliseconds until what was taken and was not there is there.
func (b *bucket) wait(r *Rate) int64 {
	return int64(max(0, -b.left) * 60_000 / r.PerMinute)
}

// answer is how more than the rate is refused.
func (r *Rate) answer() Answer { return Answer{By: r.By, Text: r.Text, Code: r.Code} }

// refuse answers what is refused. Without a subscription's id a CLOSED is a NOTICE.
func (r *Relay) refuse(c *conn, id string, a Answer, size, most int) {
	r.stats.Refused++
	text := a.Text
	if strings.Contains(text, "{") {
		text = strings.NewReplacer("{id}", id, "{size}", strconv.Itoa(size), "{max}", strconv.Itoa(most)).Replace(text)
	}
	switch a.By {
	case "closed", "ok":
		if id != "" {
			r.send(c, wire.AppendClosed(nil, id, text))
			return
		}
		r.send(c, wire.AppendNotice(nil, text))
	case "notice":
		r.send(c, wire.AppendNotice(nil, text))
	case "drop":
		r.end(c, 0, "")
	case "close":
		code := a.Code
		if code == 0 {
			code = 1008
		}
		r.end(c, code, text)
	}
}

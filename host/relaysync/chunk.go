package relaysync

import (
	"talon/host"
	"talon/host/wire"
	"talon/sdk/abi"
)

// chunk asks for events by their ids.
type chunk struct {
	h     *historic
	ids   []host.ID
	left  map[host.ID]struct{} // that have not come
	await []awaiting
}

// awaiting are ids that one historic needs, and the chunk of another one asks for: an
// event that tags a root twice, by E and by e, comes once.
type awaiting struct {
	h   *historic
	ids []host.ID
}

func (k *chunk) of() *historic { return k.h }

// more fetches what is needed, compares again, or ends, whichever is next.
func (h *historic) more(c *conn) {
	l := &c.env.cfg.Limits
	for h.chunks < l.Chunks && len(h.need) > 0 {
		if c.rests(h, h.more) {
			return
		}
		n := min(l.Chunk, len(h.need))
		if most := int(c.caps.MaxLimit); most > 0 {
			n = min(n, most)
		}
		if n > 1 && len(h.need) == n && !h.compared {
			break // wait for a whole chunk, or for the end
		}
		ids := h.need[:n:n]
		h.need = h.need[n:]
		if ids = h.unasked(c, ids); len(ids) == 0 {
			continue
		}
		if ids = h.lost(c, ids); len(ids) > 0 {
			h.ask(c, ids)
		}
	}
	if h.chunks > 0 || h.awaits > 0 || len(h.need) > 0 || !h.compared {
		return
	}
	switch {
	case h.again && h.sessions < l.Rounds && h.events+h.spared > h.fruit:
		h.open(c)
	case h.again:
		h.lack(abi.ClassTooMuch, "the relay names events that it does not have")
		h.finish(c)
	case h.push && len(h.have) > 0 && !h.sentAll:
		h.pushMore(c)
	case h.pushing == 0:
		h.finish(c)
	}
}

// unasked returns those of the ids that no chunk asks the relay for. The others are
// needed again when their chunk ends, if they are still not here then.
func (h *historic) unasked(c *conn, ids []host.ID) (rest []host.ID) {
	for _, id := range ids {
		k := c.asked[id]
		if k == nil {
			rest = append(rest, id)
			continue
		}
		h.awaits++
		if n := len(k.await); n > 0 && k.await[n-1].h == h {
			k.await[n-1].ids = append(k.await[n-1].ids, id)
		} else {
			k.await = append(k.await, awaiting{h, []host.ID{id}})
		}
	}
	return rest
}

// lost returns those of the ids that are still not here.
func (h *historic) lost(c *conn, ids []host.ID) []host.ID {
	all := len(ids)
	ids = c.env.known.unknown(ids, c.env.now())
	if len(ids) > 0 {
		if missing, err := c.env.deps.Local.Missing(c.ctx, ids); err == nil {
			ids = missing
		}
	}
	h.spared += all - len(ids)
	return ids
}

func (h *historic) ask(c *conn, ids []host.ID) {
	k := &chunk{h: h, ids: ids, left: make(map[host.ID]struct{}, len(ids))}
	for _, id := range ids {
		k.left[id] = struct{}{}
		c.asked[id] = k
	}
	h.chunks++
	// The filter's own conditions hold for these events too: a relay could name any
	// ids, to have us fetch what nobody asked for.
	c.ask(k, h.purpose, []host.Filter{{IDs: ids, Limit: len(ids)}}, h.matcher)
}

func (k *chunk) saw(_ *request, d *digest) bool {
	if _, ok := k.left[d.id]; !ok {
		return false
	}
	delete(k.left, d.id)
	return true
}

func (k *chunk) complete(c *conn, r *request) {
	c.hangUp(r)
	k.h.add(r)
	k.h.chunks--
	defer k.end(c)()
	if n := len(k.left); n > 0 && n < len(k.ids) {
		// The relay gives fewer at once than it was asked for.
		for id := range k.left {
			k.h.need = append(k.h.need, id)
		}
	}
	k.h.more(c)
}

// end asks for nothing more, and returns what has those go on who waited for that.
func (k *chunk) end(c *conn) (wake func()) {
	for _, id := range k.ids {
		if c.asked[id] == k {
			delete(c.asked, id)
		}
	}
	return func() {
		for _, a := range k.await {
			a.h.awaits -= len(a.ids)
			if !a.h.gone && a.h.method != abi.MethodREQ {
				a.h.need = append(a.h.need, a.ids...)
				a.h.more(c)
			}
		}
		k.await = nil
	}
}

func (k *chunk) closed(c *conn, r *request, class uint32, reason string) {
	h := k.h
	h.add(r)
	h.chunks--
	defer k.end(c)()
	h.lack(class, reason)
	h.need, h.again, h.compared = nil, false, true
	h.hangUp(c)
	if h.chunks == 0 {
		h.finish(c)
	}
}

// pushesAtOnce is how many events a relay is sent before it has answered.
const pushesAtOnce = 32

// pushMore sends the relay what it lacks.
func (h *historic) pushMore(c *conn) {
	most := c.env.cfg.Limits.Push
	if len(h.have) > most {
		h.have = h.have[:most]
	}
	for h.pushing < pushesAtOnce && len(h.have) > 0 {
		id := h.have[0]
		h.have = h.have[1:]
		text, err := c.env.deps.Facts.Get(c.ctx, id)
		if err != nil || text == nil {
			continue // held, refused, or gone
		}
		e, err := wire.ParseEvent(text)
		if err != nil || e.Protected() || c.pushes[id] != nil {
			continue
		}
		c.pushes[id] = h
		h.pushing++
		h.send(c, append(append([]byte(`["EVENT",`), text...), ']'))
	}
	if len(h.have) == 0 {
		h.sentAll = true
		if h.pushing == 0 {
			h.finish(c)
		}
	}
}

// pushed takes the relay's answer to one of these events.
func (h *historic) pushed(c *conn, ok bool, reason string) {
	if h.gone {
		return
	}
	h.pushing--
	if !ok && classOf(reason) == abi.ClassRateLimited {
		c.limited(reason)
		h.have = nil
	}
	h.pushMore(c)
}

// endPush gives up on a relay that does not answer. What it had was fetched before.
func (h *historic) endPush(c *conn) {
	h.have, h.pushing = nil, 0
	h.finish(c)
}

package management

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"talon/host"
	"talon/host/moderation"
)

// method is a method of the API: it lists rows of the log that are in force, or makes rows.
type method struct {
	role   role
	list   func(l *moderation.Log, now int64) any
	change func(params []json.RawMessage) ([]moderation.Row, error)
	queue  bool // it lists what waits for a decision
}

// settings are the methods of NIP-86 that change the relay's document. Talon has one place for
// options, its configuration.
var settings = map[string]bool{"changerelayname": true, "changerelaydescription": true, "changerelayicon": true}

var methods = map[string]method{
	"banpubkey":                   {role: moderator, change: rows(authorOf, moderation.Unallow, moderation.Ban)},
	"unbanpubkey":                 {role: moderator, change: rows(authorOf, moderation.Unban)},
	"listbannedpubkeys":           {role: moderator, list: list(moderation.Author, "pubkey", moderation.Ban, moderation.Purge)},
	"allowpubkey":                 {role: operator, change: rows(authorOf, moderation.Unban, moderation.Allow)},
	"unallowpubkey":               {role: operator, change: rows(authorOf, moderation.Unallow)},
	"listallowedpubkeys":          {role: moderator, list: list(moderation.Author, "pubkey", moderation.Allow)},
	"banevent":                    {role: moderator, change: rows(eventOf, moderation.Unallow, moderation.Ban)},
	"allowevent":                  {role: moderator, change: rows(eventOf, moderation.Unban, moderation.Unhide, moderation.Allow)},
	"listeventsneedingmoderation": {role: moderator, queue: true},
	"listbannedevents":            {role: moderator, list: list(moderation.Event, "id", moderation.Ban, moderation.Purge)},
	"listallowedevents":           {role: moderator, list: list(moderation.Event, "id", moderation.Allow)},
	"disallowkind":                {role: operator, change: rows(kindOf, moderation.Unallow, moderation.Ban)},
	"allowkind":                   {role: operator, change: rows(kindOf, moderation.Unban, moderation.Allow)},
	"listallowedkinds":            {role: moderator, list: listKinds(moderation.Allow)},
	"listdisallowedkinds":         {role: moderator, list: listKinds(moderation.Ban)},
	"blockip":                     {role: operator, change: rows(networkOf, moderation.Unallow, moderation.Ban)},
	"unblockip":                   {role: operator, change: rows(networkOf, moderation.Unban)},
	"listblockedips":              {role: operator, list: list(moderation.Network, "ip", moderation.Ban)},
}

// rows returns a function that makes a row of each action about the target that the first parameter
// names. The second parameter is the reason.
func rows(target func(json.RawMessage) (moderation.Target, error), actions ...moderation.Action) func([]json.RawMessage) ([]moderation.Row, error) {
	return func(params []json.RawMessage) (list []moderation.Row, err error) {
		if len(params) == 0 {
			return nil, errors.New("the first parameter is missing")
		}
		t, err := target(params[0])
		if err != nil {
			return nil, err
		}
		reason := ""
		if len(params) > 1 {
			if err := json.Unmarshal(params[1], &reason); err != nil {
				return nil, errors.New("the second parameter, the reason, is not a text")
			}
			if len(reason) > moderation.MaxReason {
				return nil, fmt.Errorf("the reason has %d bytes, more than %d", len(reason), moderation.MaxReason)
			}
		}
		for _, action := range actions {
			list = append(list, moderation.Row{Action: action, Target: t, Reason: reason})
		}
		return list, nil
	}
}

func hexOf(param json.RawMessage, what string) (b [32]byte, err error) {
	var text string
	if json.Unmarshal(param, &text) != nil || !host.ParseHex(b[:], text) {
		return b, fmt.Errorf("the first parameter is not %s: want 64 lower-case hex digits", what)
	}
	return b, nil
}

func authorOf(param json.RawMessage) (t moderation.Target, err error) {
	key, err := hexOf(param, "a public key")
	return moderation.AuthorTarget(key), err
}

func eventOf(param json.RawMessage) (t moderation.Target, err error) {
	id, err := hexOf(param, "the id of an event")
	return moderation.EventTarget(id), err
}

func kindOf(param json.RawMessage) (t moderation.Target, err error) {
	var kind uint16
	if err := json.Unmarshal(param, &kind); err != nil {
		return t, errors.New("the first parameter is not a kind: want a number from 0 to 65535")
	}
	return moderation.KindTarget(host.Kind(kind)), nil
}

// networkOf reads an address, or a network such as 192.0.2.0/24.
func networkOf(param json.RawMessage) (t moderation.Target, err error) {
	var text string
	if err := json.Unmarshal(param, &text); err != nil {
		return t, errors.New("the first parameter is not an address")
	}
	prefix, err := netip.ParsePrefix(text)
	if addr, failed := netip.ParseAddr(text); failed == nil {
		addr = addr.Unmap().WithZone("")
		prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	if err != nil {
		return t, fmt.Errorf("the first parameter %.60q is not an address or a network", text)
	}
	return moderation.NetworkTarget(prefix), nil
}

// list returns a function that lists targets of a class with their reasons, the latest first.
func list(class moderation.Class, name string, actions ...moderation.Action) func(*moderation.Log, int64) any {
	return func(l *moderation.Log, now int64) any {
		found := []map[string]string{}
		eachLatest(l, now, class, actions, func(r *moderation.Row) {
			found = append(found, map[string]string{name: nameOf(&r.Target), "reason": r.Reason})
		})
		return found
	}
}

// listKinds returns a function that lists kinds, the latest first.
func listKinds(actions ...moderation.Action) func(*moderation.Log, int64) any {
	return func(l *moderation.Log, now int64) any {
		found := []int{}
		eachLatest(l, now, moderation.Kind, actions, func(r *moderation.Row) { found = append(found, int(r.Target.Kind())) })
		return found
	}
}

// queue lists the events that people whom the operator trusts have reported, and that nobody has
// decided about. NIP-86 has no method for reported authors and repositories.
func (h *Handler) queue(ctx context.Context) (any, error) {
	items, err := h.cfg.Queue(ctx, maxList)
	found := []map[string]string{}
	for i := range items {
		if it := &items[i]; it.Target.Class() == moderation.Event {
			reason := it.Reason
			if it.Type != "" {
				reason = strings.TrimSuffix(it.Type+": "+it.Reason, ": ")
			}
			found = append(found, map[string]string{"id": nameOf(&it.Target), "reason": reason})
		}
	}
	return found, err
}

// eachLatest calls yield for the rows about targets of a class that are in force, the latest first,
// once for each target.
func eachLatest(l *moderation.Log, now int64, class moderation.Class, actions []moderation.Action, yield func(*moderation.Row)) {
	seen := make(map[string]bool)
	all := l.InForce(now, actions...)
	for i := len(all) - 1; i >= 0 && len(seen) < maxList; i-- {
		r := &all[i]
		if key := r.Target.String(); r.Target.Class() == class && !seen[key] {
			seen[key] = true
			yield(r)
		}
	}
}

// nameOf returns a target as the lists of NIP-86 name it.
func nameOf(t *moderation.Target) string {
	switch t.Class() {
	case moderation.Event:
		id := t.ID()
		return id.String()
	case moderation.Author:
		key := t.PubKey()
		return key.String()
	}
	if p := t.Network(); p.IsSingleIP() {
		return p.Addr().String()
	}
	return t.Network().String()
}

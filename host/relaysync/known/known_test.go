package known

import (
	"encoding/binary"
	"maps"
	"testing"

	"talon/host"
	"talon/host/relaysync/match"
)

// TestRefusedBeforeInvalidate checks that refusals of a policy that was replaced in between are
// forgotten.
func TestRefusedBeforeInvalidate(t *testing.T) {
	k := New(match.NewHash(1, 2), 10, 100)
	list := []*host.Event{{ID: host.ID{1}}, {ID: host.ID{2}}, {ID: host.ID{3}}}
	const epoch = 1_700_000_000
	k.Refuse(list[0], epoch, k.MarkInFlight(list[0].ID, "wss://x"))
	generation := k.MarkInFlight(list[1].ID, "wss://x")
	k.Invalidate()
	k.Refuse(list[1], epoch, generation)
	k.Refuse(list[2], epoch, k.MarkInFlight(list[2].ID, "wss://x"))
	for i, want := range []bool{false, false, true} {
		if got := k.Has(list[i].ID, epoch); got != want {
			t.Errorf("event %d is known: %v", i, got)
		}
	}
}

const start = 1_700_000_000

func event(n int) *host.Event {
	var id host.ID
	binary.BigEndian.PutUint32(id[:], uint32(n)+1)
	return &host.Event{ID: id, Kind: 1, CreatedAt: int64(n), Tags: host.Tags{{"a", "30617:" + host.PubKey{1}.String() + ":x"}}}
}

func (k *Set) refuse(from, to int, now int64) {
	for n := from; n < to; n++ {
		e := event(n)
		k.Refuse(e, now, k.MarkInFlight(e.ID, "wss://x"))
	}
}

// TestRestore checks that refusals are known after a restart, with their age and by filters too.
// Only changed pages are written.
func TestRestore(t *testing.T) {
	hash := match.NewHash(1, 2)
	k := New(hash, 10_000, 100)
	disk := map[uint64][]byte{}
	save := func() (written int) {
		pages, first := k.Pages(start)
		maps.Copy(disk, pages)
		maps.DeleteFunc(disk, func(p uint64, _ []byte) bool { return p < first })
		return len(pages)
	}
	if save() != 0 {
		t.Error("there is nothing to be written")
	}
	k.refuse(0, 3000, start-50)
	if n := save(); n != 3 {
		t.Errorf("%d pages are written", n)
	}
	if n := save(); n != 0 {
		t.Errorf("%d pages are written again", n)
	}
	k.refuse(3000, 3010, start)
	if n := save(); n != 1 {
		t.Errorf("%d pages are written for ten more", n)
	}
	k.Add(event(5).ID) // it was accepted after all
	k.Unwritten()
	if n := save(); n != 3 {
		t.Errorf("%d pages are written after a failure", n)
	}

	k = New(hash, 10_000, 100)
	disk[1<<20] = []byte("nonsense")
	k.Restore(disk, start+1)
	count := func(now int64) (n int) {
		m := hash.Matchers([]host.Filter{{Kinds: []host.Kind{1}, Limit: -1}})
		k.EachRefused(&m[0], now, func(int64, host.ID) { n++ })
		return n
	}
	if n := count(start + 1); n != 3009 {
		t.Errorf("%d events are known as refused", n)
	}
	if k.Has(event(5).ID, start+1) || !k.Has(event(3009).ID, start+1) {
		t.Error("they are not the same")
	}
	if n := count(start + 60); n != 10 {
		t.Errorf("%d events are known later", n)
	}
	delete(disk, 1<<20)
	k.refuse(3010, 3011, start+1)
	if n := save(); n != 1 {
		t.Errorf("%d pages are written after a restart", n)
	}
	k.Invalidate()
	if save(); len(disk) != 0 {
		t.Errorf("%d pages are left after other policies took over", len(disk))
	}
}

// Of a restored refusal nobody remembers the event. So what it may have waited for has it
// fetched again; what was refused since is another matter.
func TestRestoredWaits(t *testing.T) {
	hash := match.NewHash(1, 2)
	k := New(hash, 10_000, 100)
	k.refuse(0, 100, start)
	pages, _ := k.Pages(start)
	k = New(hash, 10_000, 100)
	k.Restore(pages, start)
	k.refuse(100, 200, start+1)
	known := func() (n int) {
		for i := range 200 {
			if k.Has(event(i).ID, start+2) {
				n++
			}
		}
		return n
	}
	repository := func(d string) *host.Event {
		return &host.Event{ID: host.ID{255}, PubKey: host.PubKey{1}, Kind: 30617, Tags: host.Tags{{"d", d}}}
	}
	if k.Arrived(repository("y"), start+2); known() != 200 {
		t.Errorf("another repository: %d are known", known())
	}
	if k.Arrived(repository("x"), start+2); known() != 100 {
		t.Errorf("their repository: %d are known", known())
	}
	k.refuse(0, 10, start+3)
	if k.Arrived(repository("x"), start+4); known() != 110 {
		t.Errorf("refused again: %d are known", known())
	}
	k.Arrived(repository("x"), start+200)
	if k.restored != nil {
		t.Error("what is too old to be known takes room")
	}
}

// Events with thousands of tags take the room of many.
func TestWeight(t *testing.T) {
	k := New(match.NewHash(1, 2), 100, 100)
	for n := range 100 {
		e := event(n)
		for i := range 3200 {
			e.Tags = append(e.Tags, host.Tag{"e", string(binary.AppendUvarint(nil, uint64(i)))})
		}
		k.Refuse(e, start, k.MarkInFlight(e.ID, "wss://x"))
	}
	if len(k.refused) != 1 {
		t.Errorf("%d events are kept", len(k.refused))
	}
	if k.refuse(100, 250, start); len(k.refused) != 100 {
		t.Errorf("%d small ones are kept after them", len(k.refused))
	}
}

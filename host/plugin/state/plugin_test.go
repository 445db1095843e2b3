package state

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

func TestKeys(t *testing.T) {
	p := memory(t, nil, nil, Options{}).Of("p")
	set(t, p, "a", "one", 0, start)
	set(t, p, "", "empty key", 0, start)
	set(t, p, "empty", "", 0, start)
	set(t, p, "b", "ten", 10, start)
	for _, tt := range []struct {
		key   string
		after int64
		want  string
	}{
		{"a", 0, "one"}, {"a", 1 << 30, "one"}, {"", 0, "empty key"}, {"empty", 0, ""},
		{"b", 9, "ten"}, {"b", 10, "-"}, {"b", 11, "-"}, {"c", 0, "-"},
	} {
		if got := get(p, tt.key, start+tt.after); got != tt.want {
			t.Errorf("%q after %d s: got %q, want %q", tt.key, tt.after, got, tt.want)
		}
	}
	old, _ := p.Get([]byte("a"), start)
	set(t, p, "a", "two", 5, start)
	if string(old) != "one" || get(p, "a", start) != "two" || get(p, "a", start+5) != "-" {
		t.Errorf("after another Set: the old value is %q, the new %q", old, get(p, "a", start))
	}
	set(t, p, "a", "three", 0, start)
	if got := get(p, "a", start+5); got != "three" {
		t.Errorf("a key that no longer expires: got %q", got)
	}
	set(t, p, "a", "four", -1, start)
	p.Delete([]byte("b"))
	p.Delete([]byte("b"))
	if get(p, "a", start) != "-" || get(p, "b", start) != "-" {
		t.Error("a negative ttl or Delete left the key")
	}
	set(t, p, "far", "x", math.MaxInt64, start)
	if got := get(p, "far", start+1<<40); got != "x" {
		t.Errorf("the longest ttl: got %q", got)
	}
	if p.Set(bytes.Repeat([]byte("k"), MaxKey+1), nil, 0, start) || p.Set([]byte("k"), make([]byte, MaxValue+1), 0, start) {
		t.Error("a key or value that is too long was taken")
	}
	set(t, p, strings.Repeat("k", MaxKey), strings.Repeat("v", MaxValue), 0, start)
	account(t, p)
}

func TestKeysOfOthers(t *testing.T) {
	m := memory(t, nil, nil, Options{})
	set(t, m.Of("p"), "a", "one", 0, start)
	if got := get(m.Of("q"), "a", start); got != "-" {
		t.Errorf("another plugin reads %q", got)
	}
	m.Of("p").Take([]byte("a"), 1, 1, 1000, start)
	if got := get(m.Of("p"), "a", start); got != "one" {
		t.Errorf("beside a bucket of that name the key is %q", got)
	}
	first := m.Of("p")
	if m.Of("p") != first || m.Bytes("p") == 0 || m.Bytes("q") != 0 || m.Bytes("r") != 0 {
		t.Error("Of or Bytes mixes plugins up")
	}
	if sizes := m.Sizes(); len(sizes) != 2 || sizes["p"] != m.Bytes("p") {
		t.Errorf("sizes: %v", sizes)
	}
}

func TestIncr(t *testing.T) {
	p := memory(t, nil, nil, Options{}).Of("p")
	key := []byte("n")
	for i, tt := range []struct{ delta, ttl, at, want int64 }{
		{2, 10, 0, 2},
		{3, 99, 9, 5}, // keeps the time of the first
		{1, 0, 10, 1}, // has expired; is for ever now
		{-5, 1, 1 << 20, -4},
		{math.MinInt64, 0, 1 << 20, math.MinInt64},
		{-1, 0, 1 << 20, math.MinInt64},
		{math.MaxInt64, 0, 1 << 20, -1},
		{math.MaxInt64, 0, 1 << 20, math.MaxInt64 - 1},
		{2, 0, 1 << 20, math.MaxInt64},
	} {
		if got := p.Incr(key, tt.delta, tt.ttl, start+tt.at); got != tt.want {
			t.Errorf("step %d: got %d, want %d", i, got, tt.want)
		}
	}
	if got := get(p, "n", start); got != "\xff\xff\xff\xff\xff\xff\xff\x7f" {
		t.Errorf("the counter is stored as %q", got)
	}
	set(t, p, "text", "not a number", 10, start)
	if got := p.Incr([]byte("text"), 7, 0, start); got != 7 || get(p, "text", start+9) != "\x07\x00\x00\x00\x00\x00\x00\x00" || get(p, "text", start+10) != "-" {
		t.Errorf("a text counts as %d, and becomes %q", got-7, get(p, "text", start))
	}
	if got := p.Incr([]byte("over"), 7, -1, start); got != 7 || get(p, "over", start) != "-" {
		t.Errorf("with a negative ttl: %d, stored %q", got, get(p, "over", start))
	}
	long := bytes.Repeat([]byte("k"), MaxKey+1)
	for range 2 {
		if got := p.Incr(long, 7, 0, start); got != 7 {
			t.Errorf("a key that is too long was stored: got %d", got)
		}
	}
	account(t, p)
}

func TestTake(t *testing.T) {
	for _, tt := range []struct {
		name                     string
		n, burst, per            int64
		at                       []int64 // seconds after start
		want                     []int64
		thenN, thenBurst, thenAt int64 // another take
		thenWant                 int64
	}{
		{"burst, then one a second", 1, 3, 1000, []int64{0, 0, 0, 0, 1, 1, 9, 9, 9, 9}, []int64{0, 0, 0, 1000, 0, 1000, 0, 0, 0, 1000}, 3, 3, 12, 0},
		{"several at once", 2, 5, 2500, []int64{0, 0, 0, 2, 3}, []int64{0, 0, 2500, 500, 0}, 0, 5, 3, 0},
		{"more than it holds", 6, 5, 1000, []int64{0, 100}, []int64{-1, -1}, 5, 5, 0, 0},
		{"nothing", 0, 0, 0, []int64{0}, []int64{0}, -3, 5, 0, 0},
		{"nothing to take from", 1, 0, 1000, []int64{0}, []int64{-1}, 1, -7, 0, -1},
		{"refills at once", 5, 5, 0, []int64{0, 0}, []int64{0, 0}, 5, 5, 0, 0},
		{"a smaller burst than before", 10, 10, 1000, []int64{0}, []int64{0}, 1, 2, 0, 1000},
		{"a clock that went back", 1, 2, 1000, []int64{1e6, 1e6}, []int64{0, 0}, 1, 2, 0, 1000},
		{"numbers without end", math.MaxInt64, math.MaxInt64, math.MaxInt64, []int64{0}, []int64{-1}, maxMillis, math.MaxInt64, 0, 0},
		{"years to fill", 1, 2, math.MaxInt64, []int64{0, 0, 0}, []int64{0, 0, maxMillis / 2}, 2, 2, 0, maxMillis},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := memory(t, nil, nil, Options{}).Of("p")
			key := []byte("who")
			for i, at := range tt.at {
				if got := p.Take(key, tt.n, tt.burst, tt.per, start+at); got != tt.want[i] {
					t.Errorf("take %d at %d s: got %d, want %d", i, at, got, tt.want[i])
				}
			}
			if got := p.Take(key, tt.thenN, tt.thenBurst, tt.per, start+tt.thenAt); got != tt.thenWant {
				t.Errorf("then: got %d, want %d", got, tt.thenWant)
			}
			account(t, p)
		})
	}
	p := memory(t, nil, nil, Options{}).Of("p")
	if got := p.Take(bytes.Repeat([]byte("k"), MaxKey+1), 1, 10, 1000, start); got != -1 {
		t.Errorf("a key that is too long: got %d, want -1", got)
	}
}

// TestFullBucketExpires: a bucket that is full again takes no room.
func TestFullBucketExpires(t *testing.T) {
	p := memory(t, nil, nil, Options{}).Of("p")
	for i := range 100 {
		p.Take(fmt.Append(nil, i), 1, 2, 1000, start)
		p.Take(fmt.Append(nil, i), 1, 2, 1000, start)
	}
	for after, want := range map[int64]int{0: 100, 1: 100, 2: 0} {
		q := memory(t, nil, nil, Options{}).Of("p")
		for i := range 100 {
			q.Take(fmt.Append(nil, i), 1, 2, 1000, start)
			q.Take(fmt.Append(nil, i), 1, 2, 1000, start)
		}
		if q.sweep(start + after); q.Bytes() != int64(want)*p.Bytes()/100 {
			t.Errorf("after %d s %d bytes are left, want %d buckets", after, q.Bytes(), want)
		}
		account(t, q)
	}
}

// TestModel compares random calls with state as simple as it can be said, over
// saves, failed saves and restarts.
func TestModel(t *testing.T) {
	type value struct {
		text    string
		expires int64
	}
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		now := int64(start)
		disk := newDisk()
		m := memory(t, disk, &now, Options{})
		p := m.Of("p")
		model := map[string]value{}
		tokens := map[string]float64{} // of a bucket that holds 5 and gets one in 2 s
		seen := map[string]int64{}
		for step := range 2000 {
			key := fmt.Sprint("key ", r.IntN(20))
			old := model[key]
			if old.expires != 0 && old.expires <= now {
				old = value{}
				delete(model, key)
			}
			ttl := int64(r.IntN(4) * r.IntN(10))
			until := int64(0)
			if ttl != 0 {
				until = now + ttl
			}
			switch r.IntN(12) {
			case 0, 1:
				text := strings.Repeat("x", r.IntN(20))
				set(t, p, key, text, ttl, now)
				model[key] = value{"=" + text, until}
			case 2:
				p.Delete([]byte(key))
				delete(model, key)
			case 3, 4:
				n := int64(1)
				if len(old.text) == 9 {
					n += getInt([]byte(old.text[1:]))
				}
				if old.text != "" {
					until = old.expires
				}
				if got := p.Incr([]byte(key), 1, ttl, now); got != n {
					t.Fatalf("seed %d step %d: counter is %d, want %d", seed, step, got, n)
				}
				model[key] = value{"=" + string(putInt(n)), until}
			case 5, 6:
				have := 5.0
				if at, ok := seen[key]; ok {
					have = min(5, tokens[key]+float64(now-at)/2)
				}
				want := int64(0)
				if have >= 1 {
					have--
				} else {
					want = int64((1 - have) * 2000)
				}
				tokens[key], seen[key] = have, now
				if got := p.Take([]byte(key), 1, 5, 2000, now); got != want {
					t.Fatalf("seed %d step %d: take says %d, want %d", seed, step, got, want)
				}
			case 7:
				now += int64(r.IntN(3))
			case 8:
				p.sweep(now)
			case 9:
				save(t, m)
			case 10:
				disk.fails = errFull
				m.Save(t.Context())
				disk.fails = nil
			case 11:
				if r.IntN(4) > 0 {
					continue
				}
				save(t, m)
				m = memory(t, disk, &now, Options{})
				p = m.Of("p")
			}
			want := "-"
			if v, ok := model[key]; ok && (v.expires == 0 || v.expires > now) {
				want = v.text[1:]
			}
			if got := get(p, key, now); got != want {
				t.Fatalf("seed %d step %d: %q is %q, want %q", seed, step, key, got, want)
			}
		}
		account(t, p)
	}
}

// TestTogether runs everything concurrently, for the race detector and the
// account.
func TestTogether(t *testing.T) {
	now := int64(start)
	m := memory(t, newDisk(), &now, Options{Quota: 40_000})
	p := m.Of("p")
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 2))
			for i := range 5000 {
				key, at := fmt.Append(nil, r.IntN(300)), start+int64(i/100)
				switch r.IntN(6) {
				case 0:
					p.Get(key, at)
				case 1:
					p.Set(key, make([]byte, r.IntN(300)), int64(r.IntN(5)), at)
				case 2:
					p.Incr(key, 1, int64(r.IntN(5)), at)
				case 3:
					p.Delete(key)
				default:
					p.Take(key, 1, 3, 3000, at)
				}
				if r.IntN(100) == 0 {
					m.Save(t.Context())
					p.sweep(at)
				}
				if p.Bytes() > 40_000 {
					t.Errorf("%d bytes are used, the quota is 40000", p.Bytes())
				}
			}
		})
	}
	wg.Wait()
	account(t, p)
	sum := int64(0)
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				m.Of("q").Incr([]byte("n"), 1, 0, start)
			}
		})
	}
	wg.Wait()
	if sum = m.Of("q").Incr([]byte("n"), 0, 0, start); sum != 4000 {
		t.Errorf("4 times 1000 increments make %d", sum)
	}
}

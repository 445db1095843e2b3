package negentropy

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"talon/host"
)

// item returns the n-th of an endless list of items that have nothing in common
// but perhaps the time.
func item(n int, createdAt uint64) Item {
	var seed [8]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(n))
	return Item{CreatedAt: createdAt, ID: sha256.Sum256(seed[:])}
}

func setOf(list ...Item) *Set {
	var b Builder
	for _, it := range list {
		b.Add(it)
	}
	return b.Build()
}

func (s *Set) list() []Item {
	list := make([]Item, s.Len())
	for i := range list {
		list[i] = Item{s.items.time(i), *s.items.id(i)}
	}
	return list
}

func ascending(a, b Item) int {
	return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), compareIDs(&a.ID, &b.ID))
}

// newestFirst is the order of NIP-01 answers.
func newestFirst(a, b Item) int {
	return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), compareIDs(&a.ID, &b.ID))
}

func TestBuildOrders(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	orders := map[string]func([]Item){
		"ascending":    func(l []Item) { slices.SortFunc(l, ascending) },
		"descending":   func(l []Item) { slices.SortFunc(l, ascending); slices.Reverse(l) },
		"newest first": func(l []Item) { slices.SortFunc(l, newestFirst) },
		"shuffled":     func(l []Item) { rnd.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] }) },
		"times ascending, ids shuffled": func(l []Item) {
			rnd.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
			slices.SortStableFunc(l, func(a, b Item) int { return int(a.CreatedAt) - int(b.CreatedAt) })
		},
	}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{0, 1, 2, 63, 64, 65, chunkLen - 1, chunkLen, chunkLen + 1, 3*chunkLen + 7} {
				for _, sameTime := range []uint64{1, 5, 1 << 20} {
					var list []Item
					for i := range n {
						list = append(list, item(i, 1000+uint64(i)/sameTime))
						if i%10 == 0 {
							list = append(list, list[len(list)-1])
						}
					}
					order(list)
					got := setOf(list...).list()
					slices.SortFunc(list, ascending)
					if want := slices.Compact(list); !slices.Equal(got, want) {
						t.Fatalf("%d items, %d at a time: wrong set of %d", n, sameTime, len(got))
					}
				}
			}
		})
	}
}

func TestBuilderIsEmptyAfterBuild(t *testing.T) {
	var b Builder
	b.Add(item(1, 2))
	first := b.Build()
	b.Add(item(2, 1))
	second := b.Build()
	if first.Len() != 1 || second.Len() != 1 || *second.items.id(0) != item(2, 1).ID {
		t.Fatalf("sets of %d and %d items, want one each", first.Len(), second.Len())
	}
}

func TestFingerprints(t *testing.T) {
	const n = 2*chunkLen + 100
	var b Builder
	ids := make([]host.ID, n)
	for i := range n {
		it := item(i, uint64(i))
		if i%3 == 0 {
			for j := range it.ID {
				it.ID[j] |= 0xf0 // large, so that sums overflow
			}
		}
		ids[i] = it.ID
		b.Add(it)
	}
	set := b.Build()
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		lo := rnd.IntN(n + 1)
		hi := lo + rnd.IntN(n+1-lo)
		if rnd.IntN(2) == 0 {
			hi = min(n, lo+rnd.IntN(100))
		}
		if got, want := set.fingerprint(lo, hi), slowFingerprint(ids[lo:hi]); got != want {
			t.Fatalf("fingerprint of [%d, %d): got %x, want %x", lo, hi, got, want)
		}
	}
}

// slowFingerprint follows the words of the protocol.
func slowFingerprint(ids []host.ID) fingerprint {
	total := new(big.Int)
	for _, id := range ids {
		slices.Reverse(id[:])
		total.Add(total, new(big.Int).SetBytes(id[:]))
	}
	total.Mod(total, new(big.Int).Lsh(big.NewInt(1), 256))
	b := total.FillBytes(make([]byte, 32))
	slices.Reverse(b)
	switch n := len(ids); {
	case n >= 1<<14:
		panic("too many ids for this test")
	case n >= 1<<7:
		b = append(b, byte(n>>7)|0x80, byte(n&0x7f))
	default:
		b = append(b, byte(n))
	}
	h := sha256.Sum256(b)
	return fingerprint(h[:16])
}

func TestFind(t *testing.T) {
	var list []Item
	for i := range 3000 {
		list = append(list, item(i, 10+uint64(i)/7*2))
	}
	set := setOf(list...)
	slices.SortFunc(list, ascending)
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 3000 {
		b := bound{time: rnd.Uint64N(900)}
		if i := rnd.IntN(len(list)); rnd.IntN(2) == 0 {
			b.time = list[i].CreatedAt
			b.size = copy(b.id[:], list[i].ID[:rnd.IntN(33)])
		}
		want := slices.IndexFunc(list, func(it Item) bool {
			return ascending(it, Item{b.time, b.id}) >= 0
		})
		if want < 0 {
			want = len(list)
		}
		from := rnd.IntN(want + 1)
		if got := set.find(from, &b); got != want {
			t.Fatalf("find %+v from %d: got %d, want %d", b, from, got, want)
		}
	}
	if got := set.find(7, &bound{time: infinity}); got != set.Len() {
		t.Errorf("find infinity: got %d, want %d", got, set.Len())
	}
}

func TestBoundBetween(t *testing.T) {
	set := setOf(
		Item{CreatedAt: 1, ID: host.ID{0x10, 0x20}},
		Item{CreatedAt: 1, ID: host.ID{0x10, 0x21}},
		Item{CreatedAt: 1, ID: host.ID{0x11}},
		Item{CreatedAt: 2, ID: host.ID{0x10}},
		Item{CreatedAt: 2, ID: host.ID{0x10, 31: 1}},
	)
	for i, want := range []bound{
		1: {time: 1, id: host.ID{0x10, 0x21}, size: 2},
		2: {time: 1, id: host.ID{0x11}, size: 1},
		3: {time: 2},
		4: {time: 2, id: host.ID{0x10, 31: 1}, size: 32},
	} {
		if i == 0 {
			continue
		}
		if got := set.boundBetween(i); got != want {
			t.Errorf("bound before item %d: got %+v, want %+v", i, got, want)
		}
	}
}

func TestBytesPerItem(t *testing.T) {
	if got := unsafe.Sizeof(Item{}); got != 40 {
		t.Errorf("an item has %d bytes, want 40", got)
	}
	const n = 1_000_000
	var b Builder
	for i := range n {
		b.Add(Item{CreatedAt: uint64(i)})
		b.items.chunks[i>>chunkBits].ids[i&chunkMask][0] = byte(i) // cheaper than a hash
	}
	// Items, sums, one more sum for each chunk, chunk headers, the set itself.
	const chunks = (n + 1023) / 1024
	want := 40*n + 32*(n/64+chunks) + 72*chunks + int(unsafe.Sizeof(Set{}))
	if got := b.Build().Bytes(); got != want {
		t.Errorf("a set of %d items holds %d bytes, want %d", n, got, want)
	}
}

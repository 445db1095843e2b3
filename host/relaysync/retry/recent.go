package retry

// recentKeys is how many keys of arrivals are remembered. An event whose decision
// took longer than these reach back is tried once more.
const recentKeys = 16384

// recent remembers when keys arrived last.
type recent struct {
	count    uint64 // arrivals so far
	last     map[key]uint64
	ring     []arrived // the latest keys, in the order of their arrival
	at       int       // where the next one goes
	complete uint64    // every key that arrived after this is in last
}

type arrived struct {
	key   key
	count uint64
}

func newRecent() recent { return recent{last: make(map[key]uint64)} }

// begin starts an arrival, whose keys are added then.
func (r *recent) begin() { r.count++ }

func (r *recent) add(k key) {
	if len(r.ring) < recentKeys {
		r.ring = append(r.ring, arrived{k, r.count})
	} else {
		old := r.ring[r.at]
		if r.last[old.key] == old.count {
			delete(r.last, old.key)
		}
		r.complete = old.count
		r.ring[r.at] = arrived{k, r.count}
		r.at = (r.at + 1) % recentKeys
	}
	r.last[k] = r.count
}

// after reports whether a key arrived after the mark, as far as is known.
func (r *recent) after(k key, mark uint64) bool {
	return r.last[k] > mark || mark < r.complete
}

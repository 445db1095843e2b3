package host

// VanishRequest is a request to vanish (NIP-62). The relay keeps nothing of its author up to the date
// of the request, and no gift wrap of that time that is addressed to the author.
type VanishRequest struct {
	Number int64 // in the order in which requests came; a newer one of the same author has another
	ID     ID
	PubKey PubKey
	Until  int64 // created_at of the request

	// JSON is the request, as it was signed. It is nil if nothing of the author was here: the store
	// bounds the number of such requests.
	JSON []byte
}

// Concerns reports whether an event goes because of the request.
func (v *VanishRequest) Concerns(e *Event) bool {
	if e.CreatedAt > v.Until {
		return false
	}
	if e.PubKey == v.PubKey {
		return true
	}
	if e.Kind == KindGiftWrap {
		for _, to := range e.Recipients() {
			if to == v.PubKey {
				return true
			}
		}
	}
	return false
}

// Recipients returns the keys that an event names in tags p, each once.
func (e *Event) Recipients() (list []PubKey) {
	seen := make(map[PubKey]bool)
	for _, tag := range e.Tags {
		var key PubKey
		if len(tag) > 1 && tag[0] == "p" && ParseHex(key[:], tag[1]) && !seen[key] {
			seen[key] = true
			list = append(list, key)
		}
	}
	return list
}

package nip19

import (
	"encoding/hex"
	"testing"
)

func TestDecodeNprofile(t *testing.T) {
	const key = "3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d"
	for _, code := range []string{
		"nprofile1qqsrhuxx8l9ex335q7he0f09aej04zpazpl0ne2cgukyawd24mayt8gpp4mhxue69uhhytnc9e3k7mgpz4mhxue69uhkg6nzv9ejuumpv34kytnrdaksjlyr9p",
		"nprofile1qyxhwumn8ghj7mn0wvhxcmmvqyd8wumn8ghj7un9d3shjtnhv4ehgetjde38gcewvdhk6qpq80cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwswpnfsn",
	} {
		if got, err := DecodeNprofile(code); err != nil || hex.EncodeToString(got[:]) != key {
			t.Errorf("%s: %x (%v)", code, got, err)
		}
	}
	b, _ := hex.DecodeString(key)
	for name, code := range map[string]string{
		"empty": encode("nprofile", nil), "cut": encode("nprofile", []byte{0, 32, 1}), "short": encode("nprofile", []byte{0, 1, 1}), "another": encode("npub", append([]byte{0, 32}, b...)),
		"none": encode("nprofile", append([]byte{1, 32}, b...)), "text": "nprofile1", "nothing": "",
	} {
		if got, err := DecodeNprofile(code); err == nil {
			t.Errorf("%s: %x", name, got)
		}
	}
}

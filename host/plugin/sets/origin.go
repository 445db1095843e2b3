package sets

import (
	"errors"
	"fmt"
	"strings"

	"talon/host"
	"talon/host/plugin/sidecar"
	"talon/sdk/nip19"
)

const (
	maxSets = 64 // of one plugin
	maxName = 64 // characters
	maxPath = 4096

	followList host.Kind = 3 // NIP-02
)

// check returns what is wrong with where a set comes from, in one sentence. A file is
// relative to the folder of the plugins, or absolute. A list is the address of one, as
// kind:pubkey:d or naddr; or a public key, as npub or 64 hex digits, which means that
// key's follow list.
func check(s *sidecar.Set) error {
	if s.Name == "" || len(s.Name) > maxName || strings.Trim(s.Name, nameLetters) != "" {
		return fmt.Errorf("the name of a set must be 1 to %d of the characters a-z A-Z 0-9 . _ -, not %.70q", maxName, s.Name)
	}
	switch {
	case s.File == "" && s.List == "":
		return fmt.Errorf("set %s needs a file or a list", s.Name)
	case s.File != "" && s.List != "":
		return fmt.Errorf("set %s has both a file and a list: give one of them", s.Name)
	case len(s.File) > maxPath || strings.ContainsRune(s.File, 0):
		return fmt.Errorf("the file of set %s is not a path", s.Name)
	}
	if s.List != "" {
		if _, err := addressOf(s); err != nil {
			return fmt.Errorf("set %s: %w", s.Name, err)
		}
	}
	return nil
}

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

var errAddress = errors.New("the list must be kind:pubkey:d with a kind that has addresses, naddr1…, npub1… or 64 hex digits")

// addressOf returns what the list of a set names.
func addressOf(s *sidecar.Set) (host.Address, error) {
	if strings.HasPrefix(strings.ToLower(s.List), "naddr1") {
		n, err := nip19.DecodeNaddr(s.List)
		if err != nil {
			return host.Address{}, err
		}
		a := host.Address{Kind: host.Kind(n.Kind), PubKey: n.PubKey, D: n.D}
		if again, ok := host.ParseAddress(a.String()); !ok || again != a {
			return host.Address{}, fmt.Errorf("the naddr names kind %d with identifier %.70q, which is no address", n.Kind, n.D)
		}
		return a, nil
	}
	if a, ok := host.ParseAddress(s.List); ok {
		return a, nil
	}
	key, err := nip19.ParsePubKey(s.List)
	if err != nil {
		return host.Address{}, errAddress
	}
	return host.Address{Kind: followList, PubKey: key}, nil
}

// origin says for people where a set comes from.
func origin(s *sidecar.Set) string {
	if s.File != "" {
		return "file " + s.File
	}
	return "list " + s.List
}

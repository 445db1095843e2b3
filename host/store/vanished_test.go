package store

import (
	"testing"

	"talon/host"
)

// TestUnknownVanishedAreBounded: of requests to vanish of authors of whom nothing was here, the
// oldest give way, and no other request does.
func TestUnknownVanishedAreBounded(t *testing.T) {
	s := open(t)
	change(t, s, func(tx *Tx) error {
		for n := range byte(8) {
			v := &host.VanishRequest{PubKey: host.PubKey{n}, Until: 10}
			if n == 1 {
				v.JSON = []byte("{}")
			}
			if err := (rows{tx}).InsertVanished(v, 3); err != nil {
				return err
			}
		}
		return nil
	})
	list, err := s.VanishedAfter(t.Context(), 0, 10)
	if err != nil || len(list) != 4 || list[0].Number != 2 || list[0].JSON == nil || list[1].Number != 6 || s.Stats().Vanished != 4 {
		t.Errorf("got %+v, %d in total, %v", list, s.Stats().Vanished, err)
	}
	check(t, s)
}

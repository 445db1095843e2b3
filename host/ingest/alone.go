package ingest

import "talon/host"

// alone makes a [Shared] store of one that no other process writes. Nobody else commits anything,
// and nobody else has to learn of a commit.
type alone struct{ Store }

func (alone) Changed() <-chan struct{}        { return nil }
func (alone) Alone() bool                     { return true }
func (alone) CatchUp(func(host.Commit)) error { return nil }

func (s alone) BeginShared(func(host.Commit), func(int) []*host.Event) (SharedTx, error) {
	tx, err := s.Begin()
	if err != nil {
		return nil, err
	}
	return aloneTx{tx}, nil
}

type aloneTx struct{ Tx }

func (aloneTx) Publish(*host.Event) {}
func (aloneTx) NotifyGitData()      {}

package daemon

import (
	"context"

	"talon/host/admin"
	"talon/host/gitrepo"
	"talon/host/plugin"
	"talon/host/repos"
)

// node is this process among those that are one relay. [alone] and member are its two forms.
type node interface {
	admin.Nodes
	repos.Nodes

	// Name returns the name of the node, empty if it is alone.
	Name() string

	// setReady and setDraining tell the others in which state this node is.
	setReady()
	setDraining()

	// Answer answers what other nodes ask of this one, until ctx ends.
	Answer(ctx context.Context, do func(ctx context.Context, request []byte) []byte) error

	// openRoot opens a folder of repositories.
	openRoot(git *gitrepo.Git, dir string) (*gitrepo.Root, error)

	// plugins returns the servers that run the same plugins, nil for none. follows reports whether
	// this node follows the folder of plugins, where pluginsNode is the operator's choice of a node.
	plugins(pluginsNode string) (nodes plugin.Nodes, follows bool)

	Close() error
}

// alone is the node of a process that is the relay alone.
type alone struct {
	admin.Here
	repos.Alone
}

func (alone) Name() string { return "" }
func (alone) setReady()    {}
func (alone) setDraining() {}
func (alone) Close() error { return nil }

func (alone) Answer(context.Context, func(context.Context, []byte) []byte) error { return nil }

func (alone) openRoot(git *gitrepo.Git, dir string) (*gitrepo.Root, error) {
	return gitrepo.Open(git, dir)
}

func (alone) plugins(string) (plugin.Nodes, bool) { return nil, true }

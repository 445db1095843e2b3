package sample

import (
	"talon/host"
	"talon/sdk/abi"
	"talon/sdk/abi/manifest"
)

// The parts of a request as vectors have them.

func (m *mask) source(it *host.Item) *manifest.VectorSource {
	s := &manifest.VectorSource{Origin: host.FromClient.String(), Authed: manifest.Keys(it.Authed)}
	if from := it.Source; from != nil {
		s.Origin, s.Address, s.Relay = from.Origin.String(), manifest.Address(m.address(from.Addr)), from.Relay
	}
	return s
}

func (m *mask) client(c *host.Client) *manifest.VectorClient {
	if c == nil {
		return nil
	}
	return &manifest.VectorClient{
		Address: manifest.Address(m.address(c.Addr)), Authed: manifest.Keys(c.Authed), UserAgent: c.UserAgent, Origin: c.Origin, Path: c.Path,
	}
}

func filterOf(f *host.Filter) manifest.VectorFilter {
	return manifest.FilterOf(&abi.QueryFilter[host.ID, host.PubKey, host.Kind, host.TagFilter]{
		IDs: f.IDs, Authors: f.Authors, Kinds: f.Kinds, Tags: f.Tags, Since: f.Since, Until: f.Until, Limit: f.Limit,
	})
}

func pushOf(p *host.Push) *manifest.VectorPush {
	to := &manifest.VectorPush{
		Repo: p.Repo.String(), Maintainers: manifest.Keys(p.Maintainers), Bytes: p.Bytes, Stored: p.Stored, PRs: p.PRs,
	}
	for _, u := range p.Updates {
		to.Updates = append(to.Updates, manifest.VectorUpdate(u))
	}
	return to
}

package daemon

import (
	"slices"

	"talon/host"
	"talon/host/config"
	"talon/host/plugin"
	"talon/sdk/abi/manifest"
)

// describe returns what the plugins say of the relay, and what they and the host are
// together: repositories that a policy hosts (GRASP-01) are kept complete from other
// servers (GRASP-02) while sync and the hunt run.
func describe(cfg *config.Config, plugins *plugin.Registry) func() []host.Description {
	return func() []host.Description {
		about := plugins.Describe()
		if cfg.Sync && cfg.Hunt && hosts(about) && plugins.Serves(manifest.WorldStrategy) {
			about = append(slices.Clip(about), host.Description{Grasps: []string{"GRASP-02"}})
		}
		return about
	}
}

func hosts(about []host.Description) bool {
	return slices.ContainsFunc(about, func(d host.Description) bool { return d.Hosts() })
}

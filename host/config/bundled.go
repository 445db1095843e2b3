package config

import (
	"os"
	"path/filepath"
)

// defaultPluginDir stands for the folder "plugins" next to the running program.
const defaultPluginDir = "\x00beside"

// BundledFolder is the folder of the bundled modules.
func BundledFolder() string { return beside("plugins") }

// PreparedFolder is the folder of the compiled code of these modules.
func PreparedFolder() string { return beside("compiled") }

// beside returns the path of a folder next to the running program.
func beside(name string) string {
	program, err := os.Executable()
	if err != nil {
		return name
	}
	if real, err := filepath.EvalSymlinks(program); err == nil {
		program = real
	}
	return filepath.Join(filepath.Dir(program), name)
}

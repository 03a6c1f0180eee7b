// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import "github.com/csccm/csccm/pkg/cloudstack"

const (
	running = "Running"
	stopped = "Stopped"
)

func (c *check) create(r cloudstack.CreateClusterRequest) {
	if c.read("version", SubjectVersions) {
		if v := c.version(r.VersionID); v == nil {
			c.unknownVersion(r.VersionID)
		} else {
			c.usable(v, r.ZoneID, r.ControlNodes)
		}
	}
}

func (c *check) unknownVersion(id string) {
	c.fail("version-unknown", "version "+id, "choose one of the versions that CloudStack lists", "CloudStack does not know it, or does not show it to these keys")
}

func (c *check) scale(cloudstack.ScaleClusterRequest) {
	c.managed("scale", "Created", running, stopped)
}

func (c *check) upgrade(versionID string) {
	k := c.Cluster
	if !c.managed("upgrade", running) || !c.read("version", SubjectVersions) {
		return
	}
	to := c.version(versionID)
	if to == nil {
		c.unknownVersion(versionID)
		return
	}
	c.usable(to, k.ZoneID, k.ControlNodes)
	if from := c.version(k.VersionID); from != nil {
		c.step(from, to, k.ZoneID)
	} else {
		c.fail("version-current", "cluster "+k.Name, "ask an administrator", "its own version %s is not among the versions of CloudStack", k.Version)
	}
}

func (c *check) delete(DeleteRequest) {
	c.managed("delete", running, stopped, "Alert", "Error", "Destroying")
}

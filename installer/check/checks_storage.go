// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"github.com/csccm/csccm/installer/check/decide"
)

const catStorage = "Storage"

func storageChecks() []Check {
	installed := []Phase{PhaseInstalled}
	return []Check{
		{
			Code: "STOR-001", Category: catStorage, Title: "CSI driver and controller can read their keys", Severity: SeverityError, Phases: installed, Needs: []string{"K8S-001"},
			What:   "The Secret of the CSI driver for CloudStack exists, and its cloud-config has only keys that the driver knows. Only for clusters with the driver.",
			Why:    "The driver exits at startup when it finds an unknown key, and then no volume can be created, attached or mounted. The controller's cloud-config has such keys, for example region.",
			Remedy: "give the driver a Secret of its own with the keys api-url, api-key, secret-key, project-id and ssl-no-verify only, and restart its Pods; docs/storage.md has the commands",
			Run:    by(driverFact, decide.StorageKeys),
		},
		{
			Code: "STOR-002", Category: catStorage, Title: "CSI topology as in CloudStack", Severity: SeverityError, Phases: installed, Needs: []string{"STOR-001", "CS-004"},
			What:   "The CSINode of each node names the node's VM, the node's label " + decide.ZoneKey + " is the id of the VM's zone, and every volume of the driver is in a zone that has a node.",
			Why:    "The driver attaches a volume to the VM that the CSINode names, and the scheduler places Pods by the label. A volume whose zone has no node can never be mounted.",
			Remedy: "of each named node remove the label (kubectl label node NODE " + decide.ZoneKey + "-) and delete the driver's Pod on it: it registers the node again; a volume's zone cannot be changed: join a node of that zone, or move the data to a new volume",
			Run:    by3(storageFact, nodesFact, vmsFact, decide.Topology),
		},
	}
}

// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package settings holds the global settings of a management server, the limits of resources, and their defaults.
package settings

import (
	"fmt"
	"strconv"
)

// limitDefaults adds the default limits of accounts, projects and domains to the settings.
func limitDefaults(to map[string]string) map[string]string {
	for i := range LimitKinds {
		k := &LimitKinds[i]
		to["max.account."+k.Setting] = strconv.FormatInt(k.Account, 10)
		to["max.project."+k.Setting] = strconv.FormatInt(k.Project, 10)
		to["max.domain."+k.Setting] = strconv.FormatInt(k.Domain, 10)
	}
	return to
}

// LimitKind is a kind of resource that is counted and limited. Its index in LimitKinds is its number in the API.
// Storage is counted in GiB.
type LimitKind struct {
	Key     string // in world files, and the argument of CheckLimit
	Name    string // in the API
	Setting string // max.account.<setting>, max.project.<setting>, max.domain.<setting>

	Account, Project, Domain int64 // defaults; -1 is unlimited
	Storage                  bool
}

// LimitKinds are the kinds of resources in the order of their numbers in the API.
var LimitKinds = []LimitKind{
	{Key: "virtualMachines", Name: "user_vm", Setting: "user.vms", Account: 20, Project: 20, Domain: 40},
	{Key: "publicIPs", Name: "public_ip", Setting: "public.ips", Account: 20, Project: 20, Domain: 40},
	{Key: "volumes", Name: "volume", Setting: "volumes", Account: 20, Project: 20, Domain: 40},
	{Key: "snapshots", Name: "snapshot", Setting: "snapshots", Account: 20, Project: 20, Domain: 40},
	{Key: "templates", Name: "template", Setting: "templates", Account: 20, Project: 20, Domain: 40},
	{Key: "projects", Name: "project", Setting: "projects", Account: 10, Project: -1, Domain: 50},
	{Key: "networks", Name: "network", Setting: "networks", Account: 20, Project: 20, Domain: 40},
	{Key: "vpcs", Name: "vpc", Setting: "vpcs", Account: 20, Project: 20, Domain: 40},
	{Key: "cpus", Name: "cpu", Setting: "cpus", Account: 40, Project: 40, Domain: 80},
	{Key: "memoryMiB", Name: "memory", Setting: "memory", Account: 40960, Project: 40960, Domain: 81920},
	{
		Key:     "primaryStorageGiB",
		Name:    "primary_storage",
		Setting: "primary.storage",
		Account: 200,
		Project: 200,
		Domain:  400,
		Storage: true,
	},
	{
		Key:     "secondaryStorageGiB",
		Name:    "secondary_storage",
		Setting: "secondary.storage",
		Account: 400,
		Project: 400,
		Domain:  800,
		Storage: true,
	},
	{Key: "backups", Name: "backup", Setting: "backups", Account: 20, Project: 20, Domain: 40},
	{
		Key:     "backupStorageGiB",
		Name:    "backup_storage",
		Setting: "backup.storage",
		Account: 400,
		Project: 400,
		Domain:  800,
		Storage: true,
	},
	{Key: "buckets", Name: "bucket", Setting: "buckets", Account: 20, Project: 20, Domain: 40},
	{
		Key:     "objectStorageGiB",
		Name:    "object_storage",
		Setting: "object.storage",
		Account: 400,
		Project: 400,
		Domain:  800,
		Storage: true,
	},
	{Key: "gpus", Name: "gpu", Setting: "gpus", Account: 20, Project: 20, Domain: 40},
}

// Gib is the number of bytes in a GiB.
const Gib = 1 << 30

// LimitKindOf finds a kind by its key.
func LimitKindOf(key string) *LimitKind {
	for i := range LimitKinds {
		if LimitKinds[i].Key == key {
			return &LimitKinds[i]
		}
	}
	panic("simulator: no resource limit is called " + key) // a bug in this package
}

// LimitKeys returns the keys that world files may use.
func LimitKeys() map[string]bool {
	m := make(map[string]bool, len(LimitKinds))
	for _, k := range LimitKinds {
		m[k.Key] = true
	}
	return m
}

// Text formats an amount like CloudStack's limit errors.
func (k *LimitKind) Text(n int64) string {
	if !k.Storage {
		return strconv.FormatInt(n, 10)
	}
	switch {
	case n <= 0:
		return fmt.Sprintf("%d (%d bytes)", n, n)
	case n < 1024:
		return fmt.Sprintf("%d (%.2f GB)", n*Gib, float64(n))
	}
	return fmt.Sprintf("%d (%.4f TB)", n*Gib, float64(n)/1024)
}

// Defaults are the global settings that the simulator implements, with CloudStack's values of a fresh installation.
var Defaults = limitDefaults(map[string]string{
	"allow.operations.on.users.in.same.account":              "true",
	"allow.user.create.projects":                             "true",
	"allow.user.expunge.recover.vm":                          "false",
	"allow.user.view.all.domain.accounts":                    "false",
	"allow.user.view.destroyed.vm":                           "false",
	"api.throttling.enabled":                                 "false",
	"api.throttling.interval":                                "1",
	"api.throttling.max":                                     "25",
	"cloud.kubernetes.cluster.experimental.features.enabled": "false",
	"cloud.kubernetes.cluster.max.size":                      "10",
	"cloud.kubernetes.cluster.network.offering":              "DefaultNetworkOfferingforKubernetesService",
	"cloud.kubernetes.cluster.scale.timeout":                 "3600",
	"cloud.kubernetes.cluster.add.node.timeout":              "3600",
	"cloud.kubernetes.cluster.remove.node.timeout":           "900",
	"cloud.kubernetes.cluster.start.timeout":                 "3600",
	"cloud.kubernetes.cluster.upgrade.timeout":               "3600",
	"cloud.kubernetes.etcd.node.start.port":                  "50000",
	"cloud.kubernetes.service.enabled":                       "true",
	"default.page.size":                                      "500",
	"endpoint.url":                                           "http://localhost:8080/client/api",
	"enforce.post.requests.and.timestamps":                   "false",
	"guest.domain.suffix":                                    "cloud.internal",
	"incorrect.login.attempts.allowed":                       "5",
	"job.expire.minutes":                                     "1440",
	"session.timeout":                                        "30",
})

// Atoi returns the number, or 0 if s is not a number.
func Atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

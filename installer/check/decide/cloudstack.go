// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/plural"
)

// The oldest release whose API the controller's calls fit, and those that are tested.
var (
	oldestCloudStack = [2]int{4, 16}
	newestCloudStack = [2]int{4, 22}
)

// noConfig is the finding of checks of the cloud-config where there is none to look at.
func noConfig() Finding { return Skipf("no cloud-config is known") }

// TLS decides CS-007.
func TLS(c *cloudstack.Config) Finding {
	switch {
	case c == nil:
		return noConfig()
	case credentials.PlainHTTP(c.APIURL):
		return Problemf("%s is asked without TLS", c.APIURL)
	}
	return Passf("%s", c.APIURL)
}

// Verified decides CS-008.
func Verified(c *cloudstack.Config) Finding {
	switch {
	case c == nil:
		return noConfig()
	case c.SSLNoVerify:
		return Problemf("ssl-no-verify = true: any certificate is trusted")
	case c.CAFile != "":
		return Passf("with ca-file")
	}
	return Passf("with the trusted certificates of the system")
}

// rateLimit says what limits the calls to the API.
func rateLimit(cfg *cloudstack.Config, c *cloudstack.Capabilities) string {
	server := "API throttling is off"
	if c.RateMax > 0 {
		server = fmt.Sprintf("API throttling allows the account %d calls in %s", c.RateMax, c.RateInterval)
	}
	switch {
	case cfg == nil || cfg.RateLimit == cloudconfig.AutoRate:
		return "auto; " + server
	case cfg.RateLimit == 0:
		return "off; " + server
	}
	return fmt.Sprintf("%.3g calls per second; %s", cfg.RateLimit, server)
}

// Endpoint decides CS-001.
func Endpoint(cfg *cloudstack.Config, c *cloudstack.Capabilities, err error) Finding {
	url := ""
	if cfg != nil {
		url = cfg.APIURL
	}
	if err != nil {
		e, known := errors.AsType[*cloudstack.Error](err)
		// Any refusal with CloudStack's own codes proves that CloudStack is there.
		if known && (e.Kind == cloudstack.KindAuth || e.Kind == cloudstack.KindNotPermitted || e.Kind == cloudstack.KindThrottled) {
			return Passf("%s answers; its release is not shown to these keys", url).With("answer", e.Text)
		}
		return Problemf("%s: %v", url, err).Fix("%s", credentials.Remedy(err))
	}
	f := Passf("CloudStack %s at %s", c.Version, url).With("version", c.Version).With("url", url).With("rate limit", rateLimit(cfg, c))
	for _, m := range MissingFeatures(c.Version) {
		f.Message += fmt.Sprintf("; without %s (CloudStack %s): %s", m.What, m.Since, m.Without)
	}
	if c.RateMax > 0 {
		f.Message += "; rate-limit is " + rateLimit(cfg, c)
		if cfg != nil && cfg.RateLimit != cloudconfig.AutoRate && (cfg.RateLimit == 0 || cfg.RateLimit*c.RateInterval.Seconds() > float64(c.RateMax)) {
			f.Outcome = Warning
			f = f.Fix("set rate-limit = auto in the cloud-config: CloudStack refuses calls beyond its own limit")
		}
	}
	v := numbers(c.Version)
	switch {
	case len(v) < 2:
		return f
	case slices.Compare(v, oldestCloudStack[:]) < 0:
		return Problemf("CloudStack %s is too old, want %d.%d or newer", c.Version, oldestCloudStack[0], oldestCloudStack[1]).Fix("upgrade CloudStack")
	case slices.Compare(v[:2], newestCloudStack[:]) > 0:
		f.Outcome = Warning
		f.Message += fmt.Sprintf("; newer than the tested %d.%d", newestCloudStack[0], newestCloudStack[1])
		return f.Fix("look for a newer release of csccm")
	}
	return f
}

// adminCommands are commands that only a root administrator may call.
var adminCommands = []string{"createZone", "createRole", "createDomain"}

// Keys decides CS-002.
func Keys(capabilitiesErr error, apis sets.Set[string], apisErr error) Finding {
	for _, err := range []error{capabilitiesErr, apisErr} {
		if cloudstack.IsKind(err, cloudstack.KindAuth) {
			return Problemf("%v", Cause(err))
		}
	}
	if capabilitiesErr != nil && !cloudstack.IsKind(capabilitiesErr, cloudstack.KindNotPermitted) {
		return Unread(capabilitiesErr)
	}
	for _, c := range adminCommands {
		if _, can := apis[c]; can {
			return Warnf("accepted, but they are an administrator's (may call %s)", c).
				Fix("use keys of a user with role User: `csccm install` makes one")
		}
	}
	if apisErr != nil {
		return Passf("accepted")
	}
	return Passf("accepted; the role allows %d commands", len(apis))
}

// Commands decides CS-003.
func Commands(required, optional []string, losses map[string]string, apis sets.Set[string], err error) Finding {
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return Unknownf("the role does not allow listApis, so its permissions cannot be read").
			Fix("allow listApis to the role, or compare the role with the list of commands in the documentation")
	}
	if err != nil {
		return Unread(err)
	}
	var missing, lesser []string
	for _, c := range required {
		if _, allowed := apis[c]; allowed {
			continue
		}
		if slices.Contains(optional, c) {
			lesser = append(lesser, c)
		} else {
			missing = append(missing, c)
		}
	}
	switch {
	case len(missing) > 0:
		return Problemf("the role refuses %s", strings.Join(append(missing, lesser...), ", "))
	case len(lesser) > 0:
		f := Warnf("the role refuses %s; the controller works without them", strings.Join(lesser, ", "))
		without := map[string][]string{}
		for _, c := range lesser {
			without[losses[c]] = append(without[losses[c]], c)
		}
		for loss, commands := range without {
			f = f.With("without "+strings.Join(commands, ", "), loss)
		}
		return f
	}
	return Passf("all %d commands", len(required))
}

// ScopeFacts is what CS-004 is decided by.
type ScopeFacts struct {
	Zone       string // of the cloud-config, name or id
	ProjectErr error
	Zones      []cloudstack.Zone
	ZonesErr   error
	VMs        *inventory.VMSnapshot
	VMsErr     error
}

// Scope decides CS-004.
func Scope(s ScopeFacts) Finding {
	if s.ProjectErr != nil {
		return Problemf("%v", s.ProjectErr)
	}
	// The role of CKS' own users lacks listZones: then the zones of the VMs must do.
	if s.Zone != "" && s.ZonesErr == nil && !slices.ContainsFunc(s.Zones, func(z cloudstack.Zone) bool {
		return strings.EqualFold(z.Name, s.Zone) || strings.EqualFold(z.ID, s.Zone)
	}) {
		var names []string
		for _, z := range s.Zones {
			names = append(names, z.Name)
		}
		return Problemf("zone %q does not exist; there are: %s", s.Zone, strings.Join(names, ", "))
	}
	switch {
	case cloudstack.IsKind(s.VMsErr, cloudstack.KindNotPermitted), cloudstack.IsKind(s.VMsErr, cloudstack.KindNotFound), cloudstack.IsKind(s.VMsErr, cloudstack.KindInvalid):
		return Problemf("%v", Cause(s.VMsErr))
	case s.VMsErr != nil:
		return Unread(s.VMsErr)
	case s.VMs.Len() == 0:
		return Problemf("no VMs in %s", s.VMs.Scope())
	}
	return Passf("%s", s.VMs.Scope())
}

// Networks decides CS-005.
func Networks(nodes []corev1.Node, vms *inventory.VMSnapshot, networks []cloudstack.Network) Finding {
	byID := make(map[string]*cloudstack.Network, len(networks))
	for i := range networks {
		byID[networks[i].ID] = &networks[i]
	}
	used := map[string]int{} // nodes by network
	for i := range nodes {
		vm, err := node.Match(vms, &nodes[i])
		if err == nil && len(vm.NICs) > 0 {
			used[vm.NICs[0].NetworkID]++
		}
	}
	var objects []Object
	var names []string
	for _, id := range slices.Sorted(maps.Keys(used)) {
		n := byID[id]
		if n == nil {
			objects = append(objects, Object{Kind: "Network", Name: id, Message: "of " + plural.Count(used[id], "node") + " is not visible to the keys"})
			continue
		}
		names = append(names, n.Name)
		if why := cannotBalance(n); why != "" {
			objects = append(objects, Object{Kind: "Network", Name: n.Name, Message: fmt.Sprintf("of %s: %s", plural.Count(used[id], "node"), why)})
		}
	}
	switch {
	case len(used) == 0:
		return Skipf("no node has a VM with a network")
	case len(objects) > 0:
		return Problemf("%s cannot balance load", plural.Count(len(objects), "network")).About(objects...)
	}
	return Passf("%s", strings.Join(names, ", "))
}

// cannotBalance says why a network takes no public load balancer rules; "" when it does.
func cannotBalance(n *cloudstack.Network) string {
	switch {
	case !n.HasService("Lb"):
		return "its offering lacks Lb"
	case n.VPCID == "" && !n.HasService("Firewall"):
		return "its offering lacks Firewall"
	case n.VPCID != "" && !n.HasService("NetworkACL"):
		return "its offering lacks NetworkACL"
	}
	return ""
}

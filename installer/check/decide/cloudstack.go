// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	apiversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/provider"
)

// The oldest release whose API the controller's calls fit, and the newest that is tested.
var oldestCloudStack, newestCloudStack = apiversion.MajorMinor(4, 18), apiversion.MajorMinor(4, 22)

func endpoint(f *Facts) Finding {
	switch err := Cause(f.Err(Capabilities)); {
	case f.NoCloudErr != nil:
		return broken(f.NoCloudErr)
	case f.NoCloud != "":
		return Skipf("%s", f.NoCloud)
	case cloudstack.IsKind(err, cloudstack.KindAuth), cloudstack.IsKind(err, cloudstack.KindThrottled), err == nil && f.Capabilities == nil:
		return Passf("%s answers; its release is not shown to these keys", f.Config.APIURL) // only CloudStack refuses with such codes
	case err != nil:
		return Problemf("%s: %v", f.Config.APIURL, err).Fix("%s", credentials.Remedy(err))
	}
	c := f.Capabilities
	out := Passf("CloudStack %s at %s", c.Version, f.Config.APIURL).With("version", c.Version).With("url", f.Config.APIURL)
	switch v, err := apiversion.ParseGeneric(c.Version); {
	case err != nil:
	case v.LessThan(oldestCloudStack):
		return Problemf("CloudStack %s is too old, want %s or newer", c.Version, oldestCloudStack).Fix("upgrade CloudStack")
	case newestCloudStack.LessThan(apiversion.MajorMinor(v.Major(), v.Minor())):
		return Warnf("%s; newer than the tested %s", out.Message, newestCloudStack).Fix("look for a newer release of csccm")
	}
	return out
}

// adminCommands are commands that only a root administrator may call.
var adminCommands = []string{"createZone", "createRole", "createDomain"}

func keys(f *Facts) Finding {
	asked, allowed := f.Err(Capabilities), f.Err(APIs)
	admin := slices.IndexFunc(adminCommands, f.APIs.Has)
	out := Passf("accepted; the role allows %d commands", len(f.APIs))
	switch {
	case cloudstack.IsKind(asked, cloudstack.KindAuth), cloudstack.IsKind(allowed, cloudstack.KindAuth):
		return Problemf("%v", Cause(cmp.Or(asked, allowed)))
	case asked != nil:
		return Unread(asked)
	case admin >= 0:
		out = Warnf("accepted, but they are an administrator's (may call %s)", adminCommands[admin]).
			Fix("use keys of a user with role User: `csccm install` makes one")
	case allowed != nil:
		out = Passf("accepted")
	}
	if o := f.Owner; o != nil {
		out = out.With("user", o.Username+", "+o.State).With("account", o.Account+" of domain "+o.Domain).
			With("role", fmt.Sprintf("%s (%s)", o.RoleName, o.RoleType))
	}
	return out
}

func commands(f *Facts) Finding {
	switch err := f.Err(APIs); {
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		return Unknownf("the role does not allow listApis, so its permissions cannot be read").
			Fix("allow listApis to the role, or compare the role with the list of commands in the documentation")
	case err != nil:
		return Unread(err)
	}
	var missing, lesser []string
	for _, c := range provider.RequiredCommands {
		switch {
		case f.APIs.Has(c):
		case slices.Contains(provider.OptionalCommands, c):
			lesser = append(lesser, c)
		default:
			missing = append(missing, c)
		}
	}
	switch {
	case len(missing) > 0:
		return Problemf("the role refuses %s", strings.Join(append(missing, lesser...), ", "))
	case len(lesser) == 0:
		return Passf("all %d commands", len(provider.RequiredCommands))
	}
	out := Warnf("the role refuses %s; the controller works without them", strings.Join(lesser, ", "))
	for _, c := range lesser {
		out = out.With("without "+c, provider.Losses[c])
	}
	return out
}

func scope(f *Facts) Finding {
	if err := f.Err(Project); err != nil {
		return Problemf("%v", Cause(err))
	}
	// The role of CKS' own users lacks listZones: then the zones of the VMs must do.
	var names, known []string
	for _, z := range f.Zones {
		names, known = append(names, z.Name), append(known, strings.ToLower(z.Name), z.ID)
	}
	if zone := f.Config.Zone; zone != "" && f.Err(Zones) == nil && !slices.Contains(known, strings.ToLower(zone)) {
		return Problemf("zone %q does not exist; there are: %s", zone, strings.Join(names, ", "))
	}
	switch err := f.Err(VMs); {
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted), cloudstack.IsKind(err, cloudstack.KindNotFound),
		cloudstack.IsKind(err, cloudstack.KindInvalid):
		return Problemf("%v", Cause(err))
	case err != nil:
		return Unread(err)
	case f.VMs.Len() == 0:
		return f.misplaced(Problemf("no VMs in %s", f.VMs.Scope()))
	}
	return Passf("%s", f.VMs.Scope())
}

func networks(f *Facts) Finding {
	used := map[string]int{} // nodes by network
	for i := range f.Nodes {
		if vm, ok := f.VM(&f.Nodes[i]); ok && len(vm.NICs) > 0 {
			used[vm.NICs[0].NetworkID]++
		}
	}
	if len(used) == 0 {
		return Skipf("no node has a VM with a network")
	}
	var objects []Object
	var names []string
	for _, id := range slices.Sorted(maps.Keys(used)) {
		name, why := id, " is not visible to the keys"
		if i := slices.IndexFunc(f.Networks, func(n cloudstack.Network) bool { return n.ID == id }); i >= 0 {
			n, filter := &f.Networks[i], "Firewall"
			if n.VPCID != "" {
				filter = "NetworkACL"
			}
			name, why = n.Name, ""
			for _, service := range []string{filter, "Lb"} {
				if !n.HasService(service) {
					why = ": its offering lacks " + service
				}
			}
			names = append(names, name)
		}
		if why != "" {
			objects = append(objects, objectf("Network", "", name, "of %s%s", english.Plural(used[id], "node", ""), why))
		}
	}
	return Passf("%s", strings.Join(names, ", ")).Unless(objects, "network", "%s cannot balance load")
}

func tls(f *Facts) Finding {
	switch {
	case f.Config.APIURL == "":
		return Skipf("no cloud-config is known")
	case credentials.PlainHTTP(f.Config.APIURL):
		return Problemf("%s is asked without TLS", f.Config.APIURL)
	case f.Config.SSLNoVerify:
		return Problemf("ssl-no-verify = true: any certificate is trusted").
			Fix("name the certificate that signs the API's with ca-file (csccm install --ca-file FILE --overwrite-secret), and remove ssl-no-verify")
	}
	return Passf("%s", f.Config.APIURL)
}

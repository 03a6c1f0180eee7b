// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	apiversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/provider"
)

func cloudStackChecks() []Check {
	return []Check{
		{
			Code: "CS-001", Title: "API reachable", Severity: SeverityFatal, Tries: []Source{Capabilities}, Judge: endpoint,
			What:   "The endpoint of the cloud-config answers as a CloudStack API, its certificate is trusted, and its release is supported.",
			Why:    "The controller can do nothing without it.",
			Remedy: "check api-url (it usually ends in /client/api), ca-file and the network between here and there",
		},
		{
			Code: "CS-002", Title: "Keys accepted", Severity: SeverityFatal, Needs: []string{"CS-001"}, Tries: []Source{Capabilities, APIs, Users}, Judge: keys,
			What:   "CloudStack accepts the API key and its signature, and they are not an administrator's.",
			Why:    "CloudStack answers 401 to wrong or old keys, and to disabled or locked users and accounts. The controller needs only the role User.",
			Remedy: "check api-key and secret-key, and that user and account are enabled; registering new keys makes the old ones invalid at once",
		},
		{
			Code: "CS-003", Title: "Role allows what the controller calls", Severity: SeverityError, Needs: []string{"CS-002"}, Tries: []Source{APIs}, Judge: commands,
			What:   "Every API command that the controller calls is allowed to the role of the keys.",
			Why:    "Otherwise a missing command is noticed only when a Service or node needs it.",
			Remedy: "add the named commands to the role, or give the user the default role User",
		},
		{
			Code: "CS-004", Title: "Project, zone and VMs visible", Severity: SeverityError, Needs: []string{"CS-002"}, Tries: []Source{Project, Zones, VMs, Places}, Judge: scope,
			What:   "The project and zone of the cloud-config exist, and the keys see VMs there.",
			Why:    "In a wrong project or zone the VM of every node seems to be gone.",
			Remedy: "set project-id and zone in the cloud-config to those of the cluster's VMs, and make the user a member of the project",
		},
		{
			Code: "CS-005", Title: "Networks can balance load", Severity: SeverityWarning, Needs: needVMs, Reads: []Source{Nodes, VMs, Networks}, Judge: networks,
			What:   "The network of every node's default NIC offers load balancing, and a firewall or ACLs.",
			Why:    "A Service of type LoadBalancer gets no address in a network whose offering lacks Lb.",
			Remedy: "use a network offering with Lb, SourceNat and Firewall (isolated network) or Lb and NetworkACL (VPC tier) for the nodes; without LoadBalancer Services ignore this",
		},
		{
			Code: "CS-006", Title: "API reachable from Pods", Severity: SeverityError, Phase: Installed, Needs: needAPI, Tries: []Source{Logs}, Judge: contact,
			What:   "After an install the controller's self-test in a Pod has passed. Otherwise the controller's log of the last hour shows successful calls, or no call that could not reach CloudStack.",
			Why:    "Pods may use other name servers, proxies, firewalls and CA certificates than the machine that runs csccm.",
			Remedy: "the controller's log says why: `" + ShowLog + "`",
		},
		{
			Code: "CS-007", Title: "API asked over verified TLS", Severity: SeverityWarning, Judge: tls,
			What:   "The api-url of the cloud-config is https://, or names this machine itself, and ssl-no-verify is not set.",
			Why:    "Over http:// everybody on the network path can read the calls, including an administrator's password, and change the answers. With ssl-no-verify any server can pretend to be CloudStack.",
			Remedy: "give the management server or a proxy before it a certificate, and set api-url to its https:// URL: csccm install --api-url {api-url} --overwrite-secret; in place of ssl-no-verify name the certificate that signs the API's: csccm install --ca-file FILE --overwrite-secret",
		},
	}
}

// The oldest release whose API the controller's calls fit, and the newest that is tested.
var oldestCloudStack, newestCloudStack = apiversion.MajorMinor(4, 18), apiversion.MajorMinor(4, 22)

// Feature is something that csccm offers only on newer releases of CloudStack.
type Feature struct {
	// Since is the release, such as 4.22, that added the command, or the parameter Param of it.
	Since, Command, Param string
	// What the feature is, and what happens without it, for people.
	What, Without string
}

// Features are those that not every supported release has, the oldest first. docs/support-policy.md lists all changes.
var Features = []Feature{
	{"4.19", "addVirtualMachinesToKubernetesCluster", "", "the cluster's entry in CloudStack's UI (chart value registerCluster)", "no entry is created"},
	{"4.22", "updateLoadBalancerRule", "cidrlist", "source ranges that change in place", "the rule is replaced, which ends its connections"},
	{"4.22", "assignCertToLoadBalancer", "forced", "TLS that the router ends (annotation ssl-certificate)", "a Service with the annotation is refused"},
}

// MissingFeatures returns the Features that a server of a release, such as 4.19.3.0, lacks. A release that cannot be read
// lacks none.
func MissingFeatures(release string) []Feature {
	have, err := apiversion.ParseGeneric(release)
	return slices.DeleteFunc(slices.Clone(Features), func(f Feature) bool {
		return err != nil || !have.LessThan(apiversion.MustParseGeneric(f.Since))
	})
}

func endpoint(f *Facts) Finding {
	switch err := Cause(f.Err(Capabilities)); {
	case f.NoCloudErr != nil:
		return broken(f.NoCloudErr)
	case f.NoCloud != "":
		return Skipf("%s", f.NoCloud)
	case err != nil:
		e, known := errors.AsType[*cloudstack.Error](err)
		// Any refusal with CloudStack's own codes proves that CloudStack is there.
		if known && (e.Kind == cloudstack.KindAuth || e.Kind == cloudstack.KindNotPermitted || e.Kind == cloudstack.KindThrottled) {
			return Passf("%s answers; its release is not shown to these keys", f.Config.APIURL).With("answer", e.Text)
		}
		return Problemf("%s: %v", f.Config.APIURL, err).Fix("%s", credentials.Remedy(err))
	}
	c, limit := f.Capabilities, rateLimit(&f.Config, f.Capabilities)
	out := Passf("CloudStack %s at %s", c.Version, f.Config.APIURL).With("version", c.Version).With("url", f.Config.APIURL).With("rate limit", limit)
	for _, m := range MissingFeatures(c.Version) {
		out.Message += fmt.Sprintf("; without %s (CloudStack %s): %s", m.What, m.Since, m.Without)
	}
	if c.RateMax > 0 {
		out.Message += "; rate-limit is " + limit
		if rate := f.Config.RateLimit; rate != cloudconfig.AutoRate && (rate == 0 || rate*c.RateInterval.Seconds() > float64(c.RateMax)) {
			out.Outcome = Warning
			out = out.Fix("set rate-limit = auto in the cloud-config: CloudStack refuses calls beyond its own limit")
		}
	}
	v, err := apiversion.ParseGeneric(c.Version)
	switch {
	case err != nil:
		return out
	case v.LessThan(oldestCloudStack):
		return Problemf("CloudStack %s is too old, want %s or newer", c.Version, oldestCloudStack).Fix("upgrade CloudStack")
	case newestCloudStack.LessThan(apiversion.MajorMinor(v.Major(), v.Minor())):
		out.Outcome = Warning
		out.Message += fmt.Sprintf("; newer than the tested %s", newestCloudStack)
		return out.Fix("look for a newer release of csccm")
	}
	return out
}

// rateLimit says what limits the calls to the API.
func rateLimit(cfg *cloudstack.Config, c *cloudstack.Capabilities) string {
	server := "API throttling is off"
	if c.RateMax > 0 {
		server = fmt.Sprintf("API throttling allows the account %d calls in %s", c.RateMax, c.RateInterval)
	}
	switch cfg.RateLimit {
	case cloudconfig.AutoRate:
		return "auto; " + server
	case 0:
		return "off; " + server
	}
	return fmt.Sprintf("%.3g calls per second; %s", cfg.RateLimit, server)
}

// adminCommands are commands that only a root administrator may call.
var adminCommands = []string{"createZone", "createRole", "createDomain"}

func keys(f *Facts) Finding {
	asked, allowed := f.Err(Capabilities), f.Err(APIs)
	for _, err := range []error{asked, allowed} {
		if cloudstack.IsKind(err, cloudstack.KindAuth) {
			return Problemf("%v", Cause(err))
		}
	}
	out := Passf("accepted; the role allows %d commands", len(f.APIs))
	switch admin := slices.IndexFunc(adminCommands, f.APIs.Has); {
	case asked != nil && !cloudstack.IsKind(asked, cloudstack.KindNotPermitted):
		return Unread(asked)
	case admin >= 0:
		out = Warnf("accepted, but they are an administrator's (may call %s)", adminCommands[admin]).
			Fix("use keys of a user with role User: `csccm install` makes one")
	case allowed != nil:
		out = Passf("accepted")
	}
	switch o := f.Owner; {
	case f.Err(Users) != nil:
		return out.With("account", "not shown to these keys")
	case o == nil:
		return out.With("account", "the server does not say whose the keys are")
	default:
		return out.With("user", o.Username+", "+o.State).With("account", o.Account+" of domain "+o.Domain).With("role", fmt.Sprintf("%s (%s)", o.RoleName, o.RoleType))
	}
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
	zone := f.Config.Zone
	if zone != "" && f.Err(Zones) == nil && !slices.ContainsFunc(f.Zones, func(z cloudstack.Zone) bool {
		return strings.EqualFold(z.Name, zone) || strings.EqualFold(z.ID, zone)
	}) {
		var names []string
		for _, z := range f.Zones {
			names = append(names, z.Name)
		}
		return Problemf("zone %q does not exist; there are: %s", zone, strings.Join(names, ", "))
	}
	switch err := f.Err(VMs); {
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted), cloudstack.IsKind(err, cloudstack.KindNotFound), cloudstack.IsKind(err, cloudstack.KindInvalid):
		return Problemf("%v", Cause(err))
	case err != nil:
		return Unread(err)
	case f.VMs.Len() == 0:
		return f.misplaced(Problemf("no VMs in %s", f.VMs.Scope()))
	}
	return Passf("%s", f.VMs.Scope())
}

func networks(f *Facts) Finding {
	byID := make(map[string]*cloudstack.Network, len(f.Networks))
	for i := range f.Networks {
		byID[f.Networks[i].ID] = &f.Networks[i]
	}
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
		o, why := Object{Kind: "Network", Name: id}, " is not visible to the keys"
		if n := byID[id]; n != nil {
			o.Name, why = n.Name, cannotBalance(n)
			names = append(names, n.Name)
		}
		if why != "" {
			o.Message = "of " + english.Plural(used[id], "node", "") + why
			objects = append(objects, o)
		}
	}
	return Passf("%s", strings.Join(names, ", ")).Unless(objects, "network", "%s cannot balance load")
}

// cannotBalance says why a network takes no public load balancer rules; "" when it does.
func cannotBalance(n *cloudstack.Network) string {
	filter := "Firewall"
	if n.VPCID != "" {
		filter = "NetworkACL"
	}
	for _, service := range []string{"Lb", filter} {
		if !n.HasService(service) {
			return ": its offering lacks " + service
		}
	}
	return ""
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

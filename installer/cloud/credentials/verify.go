// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/selftest"
)

// Verify runs the controller's self-test, and explains its failure in terms of csccm's flags. It returns the id of the project.
// account is the name of the account that the keys must be of; "" is any.
func Verify(ctx context.Context, t *selftest.Test, account string) (project string, err error) {
	err = explainTest(t.Config.APIURL, t.Run(ctx))
	if cloudstack.IsKind(err, cloudstack.KindAuth) || cloudstack.IsKind(err, cloudstack.KindTransient) {
		return "", err
	}
	project, wrong := activeProject(ctx, t.Client, t.Config.ProjectID)
	if wrong != nil {
		return "", wrong // it says more than what the self-test found of the project
	}
	var known *Error
	if errors.Is(err, selftest.ErrNoVM) && errors.As(err, &known) {
		known.Fix = "name the account (--account) or the project (--project) that owns the cluster's VMs, and its zone (--zone)"
		if elsewhere := seen(Places(ctx, t.Client, project)); elsewhere != "" {
			known.Fix += "; the user sees VMs in " + elsewhere
		}
	}
	if err == nil && account != "" {
		err = ofAccount(ctx, t.Client, project, account)
	}
	return project, err
}

// explainTest puts an error of a self-test in the operator's terms.
func explainTest(apiURL string, err error) error {
	problem, ok := errors.AsType[*selftest.Problem](err)
	switch {
	case !ok:
		return explain("the self-test with these keys", err)
	case errors.Is(err, selftest.ErrNoZone):
		return report.Usage(problem.Error(), strings.Replace(problem.Remedy, "in the cloud-config", "(--zone)", 1))
	}
	if api, ok := errors.AsType[*cloudstack.Error](err); ok && api.Command == "listCapabilities" && api.Kind != cloudstack.KindAuth {
		return unanswered(apiURL, api)
	}
	return report.Remedied(problem, problem.Remedy)
}

// activeProject returns the id of a project by name or id; "" for none. A role that may not list projects, as the one that CKS
// gives its project users, needs the id, which the list of VMs proves.
func activeProject(ctx context.Context, api *cloudstack.Client, want string) (id string, err error) {
	if want == "" {
		return "", nil
	}
	projects, err := api.ListProjects(ctx)
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		if !looksLikeID(want) {
			return "", &Error{
				What: fmt.Sprintf("the role may not list projects, so the name %q cannot be looked up", want),
				Fix:  "give the project's id with --project", Code: report.ExitUsage, Err: err,
			}
		}
		return want, nil
	}
	if err != nil {
		return "", explain("listing projects", err)
	}
	p, err := pickProject(projects, want)
	if err == nil && p.State != "" && !strings.EqualFold(p.State, "Active") {
		err = report.Remedied(fmt.Errorf("project %q is %s", p.Name, p.State), "activate the project in CloudStack")
	}
	return p.ID, err
}

// looksLikeID reports whether a text is a UUID rather than a name.
func looksLikeID(s string) bool { return len(s) == 36 && strings.Count(s, "-") == 4 }

// CheckZone refuses a zone, by name or id, that the user does not see.
func CheckZone(ctx context.Context, api *cloudapi.Client, want string) error {
	_, err := selftest.CheckZone(ctx, inventory.New(api, inventory.Options{}), want)
	return explainTest("", err)
}

// ofAccount refuses keys of another account than the one that was named: the VMs that they see are those of their own.
func ofAccount(ctx context.Context, api *cloudstack.Client, project, want string) error {
	vms, err := api.ListVirtualMachines(ctx, cloudstack.VMQuery{ProjectID: project, ListAll: true})
	if err != nil {
		return explain("listing virtual machines", err)
	}
	var owners []string
	for i := range vms {
		owners = append(owners, vms[i].Account)
	}
	if slices.Contains(owners, want) {
		return nil
	}
	slices.Sort(owners)
	owners = slices.Compact(owners)
	return report.Usage(fmt.Sprintf("--account %s does not match the keys: the VMs that they see are of account %s", want, some(owners)),
		"leave out --account, or give the keys of a user in account "+want)
}

// ProbeKeys are for a client that only has to find out who answers: a CloudStack refuses them.
var ProbeKeys = Keys{APIKey: "probe", SecretKey: "probe"}

// Probe reports what answers at a URL that is no CloudStack; nil for a CloudStack.
func Probe(ctx context.Context, apiURL string, api *cloudapi.Client) error {
	_, err := api.Capabilities(ctx)
	var answer *cloudstack.Error
	switch {
	case err == nil, cloudstack.IsKind(err, cloudstack.KindAuth), cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		return nil
	case errors.As(err, &answer):
		return fmt.Errorf("no CloudStack API answers at %s: %s", apiURL, answer.Text)
	}
	return err
}

// CheckKeys asks CloudStack whether it takes keys. It refuses nothing that only the role lacks.
func CheckKeys(ctx context.Context, apiURL string, api *cloudapi.Client) error {
	t := &selftest.Test{Config: &cloudstack.Config{APIURL: apiURL}, Client: api.Client, Out: io.Discard}
	return explainTest(apiURL, t.Keys(ctx))
}

package export

import "slices"

// manifests returns the manifests of the selected objects.
func (o *options) manifests(all found, r *report) []manifest {
	all.sort()
	masked := map[string]map[string]bool{}
	var out []manifest
	for _, u := range all.users {
		if m, ok := userManifest(u, r); ok {
			out = append(out, m)
		}
	}
	for _, t := range all.templates {
		masked[t.Namespace+"/"+t.Name] = declarationsIn(t.Spec.Files).masked
		switch {
		case !o.templates:
		case t.DeletionTimestamp != nil:
			r.note("CoderTemplate %s: it is being deleted, so there is no manifest", qualified(t.ObjectMeta))
		default:
			out = append(out, templateManifest(t, r))
		}
	}
	for _, ws := range all.workspaces {
		if !o.workspaces || len(o.owners) > 0 && !slices.Contains(o.owners, ws.Status.OwnerName) {
			continue
		}
		if m, ok := workspaceManifest(ws, masked[templateOf(ws)], r); ok {
			out = append(out, m)
		}
	}
	return out
}

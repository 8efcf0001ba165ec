package v1alpha1

import "cmp"

// EnvDatabase is the environment variable with the URL of Coder's database.
const EnvDatabase = "CODER_PG_CONNECTION_URL"

// CloudNativePG writes the URL of a cluster's database to the Secret <cluster>-app.
const (
	cloudNativePGSuffix = "-app"
	cloudNativePGKey    = "uri"
)

// Secret returns the name and the key of the Secret with the URL of the database. Both are empty if the
// spec does not set it.
func (d *DatabaseSpec) Secret() (name, key string) {
	switch {
	case d == nil:
		return "", ""
	case d.SecretRef != nil:
		return d.SecretRef.Name, cmp.Or(d.SecretRef.Key, "url")
	case d.CloudNativePG != nil:
		return d.CloudNativePG.ClusterName + cloudNativePGSuffix, cloudNativePGKey
	}
	return "", ""
}

// DatabaseSecret returns the Secret and the key with the connection URL of the database, and the field of
// the spec that names them. All are empty if spec.database and spec.extraEnv name none.
func (cp *CoderControlPlane) DatabaseSecret() (name, key, field string) {
	if name, key = cp.Spec.Database.Secret(); name != "" {
		return name, key, "spec.database"
	}
	for _, variable := range cp.Spec.ExtraEnv {
		if from := variable.ValueFrom; variable.Name == EnvDatabase && from != nil && from.SecretKeyRef != nil {
			return from.SecretKeyRef.Name, from.SecretKeyRef.Key, EnvDatabase + " in spec.extraEnv"
		}
	}
	return "", "", ""
}

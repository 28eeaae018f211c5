"""The last passes: a program is written in the forms that the device's compiler takes well."""

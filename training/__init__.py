"""Training: settings, data sets, objectives and Lightning modules.

Settings, captions and features that cannot be used raise InputError, which says what to do.
"""
